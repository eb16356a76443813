"""For every edge the sum of a number of its source's and one of its target's."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.kernels.sparse import Groups

_ROWS, _MOST_COLUMNS = 128, 128


def pair_sum(both: Tensor, bias: Tensor | None, edge_index: Tensor, incoming: Groups, outgoing: Groups) -> Tensor:
    """`[N, 2k]`, what a node says as a source and as a target in turn, to `[E, k]`, with `bias` `[k]` added."""
    if bias is None:
        bias = both.new_zeros(both.shape[1] // 2)
    total: Tensor = _PairSum.apply(both.contiguous(), bias, edge_index, incoming, outgoing)
    return total


class _PairSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: Tensor, bias: Tensor, edge_index: Tensor, incoming: Groups, outgoing: Groups) -> Tensor:
        edges, width = edge_index.shape[1], both.shape[1] // 2
        out = both.new_empty(edges, width)
        ctx.groups, ctx.nodes = (incoming, outgoing), len(both)
        if edges:
            rows, columns, grid = _grid(edges, width)
            _pair[grid](both, bias, edge_index, out, edges, width, rows, columns)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (pointers_in, edges_in, _), (pointers_out, edges_out, _) = ctx.groups
        slope, width = slope.contiguous(), slope.shape[1]
        for_both = slope.new_empty(ctx.nodes, 2 * width)
        columns = min(int(triton.next_power_of_2(width)), _MOST_COLUMNS)
        _pair_back[ctx.nodes, triton.cdiv(width, columns)](
            slope, pointers_in, edges_in, pointers_out, edges_out, for_both, width,
            edges_in is not None, edges_out is not None, 8, columns,
        )  # fmt: skip
        return for_both, slope.sum(0), None, None, None


def _grid(rows: int, width: int) -> tuple[int, int, tuple[int, int]]:
    columns = min(int(triton.next_power_of_2(width)), _MOST_COLUMNS)
    block = max(1, _ROWS * 8 // columns) if columns > 1 else _ROWS
    return block, columns, (triton.cdiv(rows, block), triton.cdiv(width, columns))


@triton.jit(do_not_specialize=["edges"])
def _pair(both, bias, edge_index, out, edges, width, R: tl.constexpr, C: tl.constexpr):
    edge, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    inside, there = edge < edges, column < width
    here = inside[:, None] & there[None, :]
    source = tl.load(edge_index + edge, mask=inside, other=0)
    target = tl.load(edge_index + edges + edge, mask=inside, other=0)
    said = tl.load(both + source[:, None] * (2 * width) + 2 * column[None, :], mask=here, other=0).to(tl.float32)
    said += tl.load(both + target[:, None] * (2 * width) + 2 * column[None, :] + 1, mask=here, other=0).to(tl.float32)
    said += tl.load(bias + column, mask=there, other=0).to(tl.float32)[None, :]
    tl.store(out + edge.to(tl.int64)[:, None] * width + column[None, :], said, mask=here)


@triton.jit
def _sum_at(slope, pointers, edges, node, column, width, EDGES: tl.constexpr, K: tl.constexpr, C: tl.constexpr):
    total = tl.zeros((C,), tl.float32)
    first, last = tl.load(pointers + node), tl.load(pointers + node + 1)
    for start in range(first, last, K):
        place = start + tl.arange(0, K)
        inside = place < last
        edge = place
        if EDGES:
            edge = tl.load(edges + place, mask=inside, other=0)
        here = inside[:, None] & (column < width)[None, :]
        total += tl.sum(tl.load(slope + edge[:, None] * width + column[None, :], mask=here, other=0).to(tl.float32), 0)
    return total


@triton.jit
def _pair_back(
    slope, pointers_in, edges_in, pointers_out, edges_out, for_both, width,
    IN: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    node, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    place, there = for_both + node * 2 * width + 2 * column, column < width
    tl.store(place, _sum_at(slope, pointers_out, edges_out, node, column, width, OUT, K, C), mask=there)
    tl.store(place + 1, _sum_at(slope, pointers_in, edges_in, node, column, width, IN, K, C), mask=there)
