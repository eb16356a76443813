"""Attention over the rows of each graph: one launch forward after the product with the query, and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Segments
from outland.ops.triton.readout import LARGEST, contiguous, grouped, load_weight, row_tiles, tiles


def attention_pool(values: Tensor, segments: Segments, query: Tensor, weight: Tensor | None = None) -> Tensor:
    """See `ops.attention_pool`."""
    return _AttentionPool.apply(values.contiguous(), *grouped(segments), query, contiguous(weight))


class _AttentionPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, batch: Tensor, ptr: Tensor, query: Tensor, weight: Tensor | None) -> Tensor:
        graphs, width = len(ptr) - 1, values.shape[1]
        score = (values @ query.to(values.dtype)).float()
        out, log_total = values.new_empty(graphs, width), score.new_empty(graphs)
        if graphs:
            grid, depth, block = tiles(values, graphs)
            _attention_forward[grid](
                values, score, weight, ptr, out, log_total, width, weight is not None, depth, block
            )
        ctx.save_for_backward(values, batch, score, out, log_total, query, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, batch, score, out, log_total, query, weight = ctx.saved_tensors
        needs_weight = ctx.needs_input_grad[4]
        grad_values, grad_score = torch.empty_like(values), torch.empty_like(score)
        grad_weight = torch.empty_like(weight) if needs_weight else None
        if len(values):
            grid, rows, block = row_tiles(values)
            _attention_backward[grid](
                values, score, weight, query, batch, out, log_total, grad.contiguous(), grad_values, grad_score,
                grad_weight, len(out), len(values), values.shape[1], weight is not None, needs_weight, rows, block,
            )  # fmt: skip
        by_query = (grad_score.to(values.dtype) @ values).to(query.dtype) if ctx.needs_input_grad[3] else None
        return grad_values, None, None, by_query, grad_weight


@triton.jit
def _attention_forward(
    values, score, weight, ptr, out, log_total,
    WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The mean of each graph's rows by the softmax of their scores, and the logarithm of its divisor."""
    graph, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < WIDTH
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    highest = tl.full((K,), float("-inf"), tl.float32)
    for start in range(first, last, K):
        row = start + tl.arange(0, K)
        there = load_weight(weight, row, row < last, WEIGHTED) > 0
        highest = tl.maximum(highest, tl.load(score + row, mask=there, other=float("-inf")))
    top = tl.max(highest, 0)
    top = tl.where(top == float("-inf"), 0.0, top)
    total, weighted = tl.zeros((K,), tl.float32), tl.zeros((C,), tl.float32)
    for start in range(first, last, K):
        row = start + tl.arange(0, K)
        share = load_weight(weight, row, row < last, WEIGHTED)
        power = share * tl.exp(tl.load(score + row, mask=share > 0, other=float("-inf")) - top)
        mask = (share > 0)[:, None] & in_width[None, :]
        tile = tl.load(values + row[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
        total, weighted = total + power, weighted + tl.sum(power[:, None] * tile, 0)
    sum_of = tl.sum(total, 0)
    safe = tl.where(sum_of > 0, sum_of, 1.0)
    tl.store(out + graph * WIDTH + column, weighted / safe, mask=in_width)
    if tl.program_id(1) == 0:
        tl.store(log_total + graph, top + tl.log(safe))


@triton.jit(do_not_specialize=["graphs", "rows"])
def _attention_backward(
    values, score, weight, query, batch, out, log_total, grad, grad_values, grad_score, grad_weight, graphs, rows,
    WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, GRAD_WEIGHT: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    in_rows = row < rows
    graph = tl.load(batch + row, mask=in_rows, other=graphs)
    real = graph < graphs
    power = tl.load(score + row, mask=real, other=0) - tl.load(log_total + graph, mask=real, other=0)
    power = tl.exp(tl.minimum(power, LARGEST))
    alpha = power * load_weight(weight, row, real, WEIGHTED)
    by_score = tl.zeros((R,), tl.float32)
    for start in range(0, WIDTH, C):
        column = start + tl.arange(0, C)
        mask = real[:, None] & (column < WIDTH)[None, :]
        at_graph = graph[:, None] * WIDTH + column[None, :]
        value = tl.load(values + row[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
        value -= tl.load(out + at_graph, mask=mask, other=0).to(tl.float32)
        by_score += tl.sum(value * tl.load(grad + at_graph, mask=mask, other=0).to(tl.float32), 1)
    if GRAD_WEIGHT:
        tl.store(grad_weight + row, power * by_score, mask=in_rows)
    by_score *= alpha
    tl.store(grad_score + row, by_score, mask=in_rows)
    for start in range(0, WIDTH, C):
        column = start + tl.arange(0, C)
        in_width = column < WIDTH
        mask = real[:, None] & in_width[None, :]
        at_graph = graph[:, None] * WIDTH + column[None, :]
        grad_row = alpha[:, None] * tl.load(grad + at_graph, mask=mask, other=0).to(tl.float32)
        grad_row += by_score[:, None] * tl.load(query + column, mask=in_width, other=0).to(tl.float32)[None, :]
        tl.store(
            grad_values + row[:, None] * WIDTH + column[None, :], grad_row, mask=in_rows[:, None] & in_width[None, :]
        )
