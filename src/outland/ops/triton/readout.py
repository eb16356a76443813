"""Maxima of the rows of each graph, hard and smooth: one launch forward, with programs for each graph, and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Segments
from outland.ops.readout import MOST
from outland.ops.triton.rows import column_blocks, rows_at_once

_TILE_ROWS = 4
LARGEST = tl.constexpr(MOST)  # exponent


def max_pool(values: Tensor, segments: Segments, weight: Tensor | None = None) -> Tensor:
    """See `ops.max_pool`."""
    return _MaxPool.apply(values.contiguous(), *grouped(segments), contiguous(weight))


def logsumexp_pool(values: Tensor, segments: Segments, temperature: Tensor, weight: Tensor | None = None) -> Tensor:
    """See `ops.logsumexp_pool`."""
    return _LogSumExpPool.apply(values.contiguous(), *grouped(segments), temperature, contiguous(weight))


def contiguous(weight: Tensor | None) -> Tensor | None:
    """The weights, one after another in memory."""
    return None if weight is None else weight.contiguous()


def grouped(segments: Segments) -> tuple[Tensor, Tensor]:
    """The graph of each row, and where the rows of each begin, without padding."""
    assert segments.ptr is not None
    return segments.batch, segments.ptr[: len(segments.sizes) + 1]


def tiles(values: Tensor, graphs: int) -> tuple[tuple[int, int], int, int]:
    """Of a forward pass: the grid, the rows that a program reads at a time, and its columns."""
    block, grid = column_blocks(graphs, values.shape[1])
    return grid, rows_at_once(values, graphs, 1024 // block), block


def row_tiles(values: Tensor) -> tuple[tuple[int], int, int]:
    """Of a backward pass: the grid, the rows of a program, and the columns that it reads at a time."""
    return (triton.cdiv(len(values), _TILE_ROWS),), _TILE_ROWS, min(512, triton.next_power_of_2(values.shape[1]))


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, batch: Tensor, ptr: Tensor, weight: Tensor | None) -> Tensor:
        graphs, width = len(ptr) - 1, values.shape[1]
        out, count = values.new_empty(graphs, width), values.new_empty(graphs, width, dtype=torch.float32)
        if graphs:
            grid, depth, block = tiles(values, graphs)
            _max_forward[grid](values, weight, ptr, out, count, width, weight is not None, depth, block)
        ctx.save_for_backward(values, batch, out, count, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, batch, out, count, weight = ctx.saved_tensors
        grad_values = torch.empty_like(values)
        if len(values):
            grid, rows, block = row_tiles(values)
            _max_backward[grid](
                values, weight, batch, out, count, grad.contiguous(), grad_values, len(out), len(values),
                values.shape[1], weight is not None, rows, block,
            )  # fmt: skip
        return grad_values, None, None, None


class _LogSumExpPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, batch: Tensor, ptr: Tensor, temperature: Tensor, weight: Tensor | None
    ) -> Tensor:
        graphs, width = len(ptr) - 1, values.shape[1]
        out = values.new_empty(graphs, width)
        exact, spread = (values.new_empty(graphs, width, dtype=torch.float32) for _ in range(2))
        if graphs:
            grid, depth, block = tiles(values, graphs)
            _logsumexp_forward[grid](
                values, weight, temperature, ptr, out, exact, spread, width, weight is not None, depth, block
            )
        ctx.save_for_backward(values, batch, exact, spread, temperature, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, batch, exact, spread, temperature, weight = ctx.saved_tensors
        grad, grad_values = grad.contiguous(), torch.empty_like(values)
        needs_weight = ctx.needs_input_grad[4]
        grad_weight = torch.empty_like(weight) if needs_weight else None
        if len(values):
            grid, rows, block = row_tiles(values)
            _logsumexp_backward[grid](
                values, weight, temperature, batch, exact, grad, grad_values, grad_weight, len(exact), len(values),
                values.shape[1], weight is not None, needs_weight, rows, block,
            )  # fmt: skip
        by_temperature = (grad * spread).sum() / temperature if ctx.needs_input_grad[3] else None
        return grad_values, None, None, by_temperature, grad_weight


@triton.jit
def load_weight(weight, row, mask, WEIGHTED: tl.constexpr):
    """The weights of rows, 1 where there are none; 0 where `mask` is."""
    if WEIGHTED:
        return tl.load(weight + row, mask=mask, other=0).to(tl.float32)
    return mask.to(tl.float32)


@triton.jit
def higher(first, second):
    """The higher of two numbers; NaN where one of them is."""
    return tl.maximum(first, second, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _max_forward(
    values, weight, ptr, out, count,
    WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The highest of each graph's rows, and how many are as high."""
    graph, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < WIDTH
    top, equal = tl.full((C,), float("-inf"), tl.float32), tl.zeros((C,), tl.float32)
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    for start in range(first, last, K):
        row = start + tl.arange(0, K)
        there = load_weight(weight, row, row < last, WEIGHTED) > 0
        mask = there[:, None] & in_width[None, :]
        tile = tl.load(values + row[:, None] * WIDTH + column[None, :], mask=mask, other=float("-inf")).to(tl.float32)
        highest = tl.reduce(tile, 0, higher)
        number = tl.sum(((tile == highest[None, :]) & mask).to(tl.float32), 0)
        equal = tl.where(highest > top, number, tl.where(highest == top, equal + number, equal))
        top = higher(top, highest)
    tl.store(out + graph * WIDTH + column, tl.where(top == float("-inf"), 0, top), mask=in_width)
    tl.store(count + graph * WIDTH + column, equal, mask=in_width)


@triton.jit(do_not_specialize=["graphs", "rows"])
def _max_backward(
    values, weight, batch, out, count, grad, grad_values, graphs, rows,
    WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    graph = tl.load(batch + row, mask=row < rows, other=graphs)
    there = (graph < graphs) & (load_weight(weight, row, row < rows, WEIGHTED) > 0)
    for start in range(0, WIDTH, C):
        column = start + tl.arange(0, C)
        in_width = (column < WIDTH)[None, :]
        offset, at_graph = row[:, None] * WIDTH + column[None, :], graph[:, None] * WIDTH + column[None, :]
        mask = there[:, None] & in_width
        value = tl.load(values + offset, mask=mask, other=0).to(tl.float32)
        highest = mask & (value == tl.load(out + at_graph, mask=mask, other=0).to(tl.float32))
        share = tl.load(grad + at_graph, mask=mask, other=0).to(tl.float32)
        share /= tl.load(count + at_graph, mask=mask, other=1)
        tl.store(grad_values + offset, tl.where(highest, share, 0), mask=(row < rows)[:, None] & in_width)


@triton.jit
def _logsumexp_forward(
    values, weight, temperature, ptr, out, exact, spread,
    WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The log-sum-exp of each graph's rows, once with infinity for none, and its distance from their softmax mean."""
    graph, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < WIDTH
    tau = tl.load(temperature).to(tl.float32)
    top, total = tl.full((C,), float("-inf"), tl.float32), tl.zeros((C,), tl.float32)
    weighted = tl.zeros((C,), tl.float32)
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    for start in range(first, last, K):
        row = start + tl.arange(0, K)
        share = load_weight(weight, row, row < last, WEIGHTED)
        mask = (share > 0)[:, None] & in_width[None, :]
        tile = tl.load(values + row[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
        scaled = tl.where(mask, tile / tau, float("-inf"))
        highest = tl.maximum(top, tl.max(scaled, 0))
        finite = tl.where(highest == float("-inf"), 0, highest)
        powers = share[:, None] * tl.exp(scaled - finite[None, :])
        kept = tl.exp(top - finite)
        total, weighted = total * kept + tl.sum(powers, 0), weighted * kept + tl.sum(powers * tile, 0)
        top = highest
    there = total != 0  # NaN is not 0 and stays
    safe = tl.where(there, total, 1)
    smooth, offset = tl.where(there, tau * (top + tl.log(safe)), 0), graph * WIDTH + column
    tl.store(out + offset, smooth, mask=in_width)
    tl.store(exact + offset, tl.where(there, smooth, float("inf")), mask=in_width)
    tl.store(spread + offset, smooth - weighted / safe, mask=in_width)


@triton.jit(do_not_specialize=["graphs", "rows"])
def _logsumexp_backward(
    values, weight, temperature, batch, exact, grad, grad_values, grad_weight, graphs, rows,
    WIDTH: tl.constexpr, WEIGHTED: tl.constexpr, GRAD_WEIGHT: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    graph = tl.load(batch + row, mask=row < rows, other=graphs)
    share = load_weight(weight, row, row < rows, WEIGHTED)
    tau = tl.load(temperature).to(tl.float32)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, WIDTH, C):
        column = start + tl.arange(0, C)
        in_width = (column < WIDTH)[None, :]
        offset, at_graph = row[:, None] * WIDTH + column[None, :], graph[:, None] * WIDTH + column[None, :]
        mask = (graph < graphs)[:, None] & in_width
        value = tl.load(values + offset, mask=mask, other=0).to(tl.float32)
        power = tl.exp(tl.minimum((value - tl.load(exact + at_graph, mask=mask, other=0)) / tau, LARGEST))
        power *= tl.load(grad + at_graph, mask=mask, other=0).to(tl.float32)
        tl.store(grad_values + offset, share[:, None] * power, mask=(row < rows)[:, None] & in_width)
        total += tl.sum(power, 1)
    if GRAD_WEIGHT:
        tl.store(grad_weight + row, tau * total, mask=row < rows)
