"""A linear map of both ends of every edge: one product for all nodes, and one launch for all edges."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from outland.ops.csr import Edges
from outland.ops.triton.rows import rows_at_once

_ROWS, _TILE_COLUMNS = 128, 128
_GRAD_COLUMNS = 512  # few programs, for each waits for one read after another: where edges begin, which, their rows


def pair_linear(h: Tensor, weight: Tensor, bias: Tensor | None, edges: Edges) -> Tensor:
    """See `ops.pair_linear`."""
    scores = map_ends(h, weight)
    bias = scores.new_zeros(len(weight)) if bias is None else bias
    return _PairSum.apply(scores, bias, edges)


def map_ends(h: Tensor, weight: Tensor) -> Tensor:
    """All outputs of every node as a source, then as a target `[N, 2k]`."""
    ends = weight.unflatten(1, (2, -1)).transpose(0, 1).flatten(0, 1)
    return functional.linear(h, ends).contiguous()


class _PairSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, bias: Tensor, edges: Edges) -> Tensor:
        index, *ctx.grouped = edges
        count, width = index.shape[1], scores.shape[1] // 2
        ctx.nodes, out = len(scores), scores.new_empty(count, width)
        if count:
            columns = min(triton.next_power_of_2(width), _TILE_COLUMNS)
            rows = max(1, _ROWS * 8 // columns) if columns > 1 else _ROWS
            grid = (triton.cdiv(count, rows), triton.cdiv(width, columns))
            _pair_sum_forward[grid](scores, bias, index, out, count, width, rows, columns)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rowptr_in, perm_in, _), (rowptr_out, perm_out, _) = ctx.grouped
        grad, width = grad.contiguous(), grad.shape[1]
        grad_scores = grad.new_empty(ctx.nodes, 2 * width)
        columns = min(triton.next_power_of_2(width), _GRAD_COLUMNS)
        _pair_sum_backward[ctx.nodes, triton.cdiv(width, columns)](
            grad, rowptr_in, perm_in, rowptr_out, perm_out, grad_scores, width,
            perm_in is not None, perm_out is not None, rows_at_once(grad, ctx.nodes, 8), columns,
        )  # fmt: skip
        return grad_scores, grad.sum(0) if ctx.needs_input_grad[1] else None, None


@triton.jit(do_not_specialize=["edges"])
def _pair_sum_forward(scores, bias, edge_index, out, edges, width, R: tl.constexpr, C: tl.constexpr):
    edge, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    in_edges, in_width = edge < edges, column < width
    mask = in_edges[:, None] & in_width[None, :]
    source = tl.load(edge_index + edge, mask=in_edges, other=0)
    target = tl.load(edge_index + edges + edge, mask=in_edges, other=0)
    at_source = scores + source[:, None] * (2 * width) + column[None, :]
    total = tl.load(at_source, mask=mask, other=0).to(tl.float32)
    at_target = scores + target[:, None] * (2 * width) + width + column[None, :]
    total += tl.load(at_target, mask=mask, other=0).to(tl.float32)
    total += tl.load(bias + column, mask=in_width, other=0).to(tl.float32)[None, :]
    tl.store(out + edge.to(tl.int64)[:, None] * width + column[None, :], total, mask=mask)


@triton.jit
def _sum_grads(grad, rowptr, perm, node, column, width, PERM: tl.constexpr, K: tl.constexpr, C: tl.constexpr):
    total = tl.zeros((C,), tl.float32)
    first, last = tl.load(rowptr + node), tl.load(rowptr + node + 1)
    for start in range(first, last, K):
        position = start + tl.arange(0, K)
        in_edges = position < last
        edge = position
        if PERM:
            edge = tl.load(perm + position, mask=in_edges, other=0)
        mask = in_edges[:, None] & (column < width)[None, :]
        total += tl.sum(tl.load(grad + edge[:, None] * width + column[None, :], mask=mask, other=0).to(tl.float32), 0)
    return total


@triton.jit
def _pair_sum_backward(
    grad, rowptr_in, perm_in, rowptr_out, perm_out, grad_scores, width,
    IN: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    node, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    offset, in_width = grad_scores + node * 2 * width + column, column < width
    tl.store(offset, _sum_grads(grad, rowptr_out, perm_out, node, column, width, OUT, K, C), mask=in_width)
    tl.store(offset + width, _sum_grads(grad, rowptr_in, perm_in, node, column, width, IN, K, C), mask=in_width)
