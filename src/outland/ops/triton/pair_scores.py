"""A network of one hidden layer on both ends of every edge, whose hidden layer is computed anew where it is needed.

Forward a program takes some edges; back it takes some nodes, once for the edges that leave them and once for those
that reach them.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import EdgeCSR, Edges
from outland.ops.triton.aggregate import edge_at
from outland.ops.triton.pair import map_ends
from outland.ops.triton.rows import rows_at_once

_EDGES, _COLUMNS = 32, 64  # of a tile forward
_NODES, _GRAD_COLUMNS = 16, 256  # of a program back


def pair_scores(
    h: Tensor, weight: Tensor, bias: Tensor, last_weight: Tensor, last_bias: Tensor, edges: Edges
) -> Tensor:
    """See `ops.pair_scores`, for one score an edge."""
    mapped = map_ends(h, weight)
    scores: Tensor = _PairScores.apply(mapped, bias, last_weight.flatten(), edges)
    return (scores[:, None] + last_bias).to(mapped.dtype)


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mapped: Tensor, bias: Tensor, weight: Tensor, edges: Edges) -> Tensor:
        index, incoming, outgoing = edges
        count, width = index.shape[1], len(bias)
        out = mapped.new_empty(count, dtype=torch.float32)
        if count:
            columns = min(triton.next_power_of_2(width), _COLUMNS)
            _pair_scores_forward[(triton.cdiv(count, _EDGES),)](
                mapped, bias, weight, index, out, count, width, _EDGES, columns
            )
        ctx.save_for_backward(mapped, bias, weight)
        ctx.grouped = incoming, outgoing
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        mapped, bias, weight = ctx.saved_tensors
        incoming, outgoing = ctx.grouped
        grad_mapped, grad = torch.empty_like(mapped), grad.contiguous()
        weights = _launch_backward(mapped, bias, weight, outgoing, grad, grad_mapped, at_target=False)
        _launch_backward(mapped, bias, weight, incoming, grad, grad_mapped, at_target=True)
        grad_bias = grad_mapped[:, : len(bias)].sum(0)  # each edge has one source
        return grad_mapped, grad_bias, weights.sum(0), None


def _launch_backward(
    mapped: Tensor, bias: Tensor, weight: Tensor, csr: EdgeCSR, grad: Tensor, grad_mapped: Tensor, at_target: bool
) -> Tensor:
    """Write the gradients of one end of the edges; those of `weight` by blocks of nodes, from the sources alone."""
    nodes, width = len(mapped), len(bias)
    columns = min(triton.next_power_of_2(width), _GRAD_COLUMNS)
    grid = triton.cdiv(nodes, _NODES), triton.cdiv(width, columns)
    grad_weight = mapped.new_empty(0 if at_target else grid[0], width, dtype=torch.float32)
    _pair_scores_backward[grid](
        mapped, bias, weight, csr.rowptr, csr.perm, csr.col, grad, grad_mapped, grad_weight, nodes, width,
        csr.perm is not None, at_target, _NODES, rows_at_once(grad, nodes, 8), columns,
    )  # fmt: skip
    return grad_weight


@triton.jit(do_not_specialize=["edges"])
def _pair_scores_forward(
    mapped, bias, weight, edge_index, out, edges, WIDTH: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    edge = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    in_edges = edge < edges
    source = tl.load(edge_index + edge, mask=in_edges, other=0)
    target = tl.load(edge_index + edges + edge, mask=in_edges, other=0)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, WIDTH, C):
        column = start + tl.arange(0, C)
        in_width = column < WIDTH
        mask = in_edges[:, None] & in_width[None, :]
        hidden = tl.load(mapped + source[:, None] * (2 * WIDTH) + column[None, :], mask=mask, other=0).to(tl.float32)
        hidden += tl.load(mapped + target[:, None] * (2 * WIDTH) + WIDTH + column[None, :], mask=mask, other=0)
        hidden += tl.load(bias + column, mask=in_width, other=0).to(tl.float32)[None, :]
        hidden = tl.where(hidden < 0, 0, hidden)  # not a maximum, which would make 0 of NaN
        total += tl.sum(hidden * tl.load(weight + column, mask=in_width, other=0).to(tl.float32)[None, :], 1)
    tl.store(out + edge, total, mask=in_edges)


@triton.jit(do_not_specialize=["nodes"])
def _pair_scores_backward(
    mapped, bias, weight, rowptr, perm, col, grad, grad_mapped, grad_weight, nodes, WIDTH: tl.constexpr,
    PERM: tl.constexpr, AT_TARGET: tl.constexpr, NODES: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradients of one half of some rows of `mapped`, that of sources or of targets, over the edges at that end."""
    column = tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < WIDTH
    half = WIDTH if AT_TARGET else 0
    other_half = WIDTH - half
    shift = tl.load(bias + column, mask=in_width, other=0).to(tl.float32)
    factor = tl.load(weight + column, mask=in_width, other=0).to(tl.float32)
    weight_grad = tl.zeros((C,), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * NODES
    for node in range(begin, tl.minimum(begin + NODES, nodes)):
        offset = node * (2 * WIDTH) + half + column
        value = tl.load(mapped + offset, mask=in_width, other=0).to(tl.float32) + shift
        total = tl.zeros((C,), tl.float32)
        first, last = tl.load(rowptr + node), tl.load(rowptr + node + 1)
        for start in range(first, last, K):
            position = start + tl.arange(0, K)
            in_group = position < last
            mask = in_group[:, None] & in_width[None, :]
            edge = edge_at(perm, position, in_group, PERM)
            far = tl.load(col + position, mask=in_group, other=0)
            hidden = tl.load(mapped + far[:, None] * (2 * WIDTH) + other_half + column[None, :], mask=mask, other=0)
            hidden = hidden.to(tl.float32) + value[None, :]
            grad_out = tl.load(grad + edge, mask=in_group, other=0).to(tl.float32)[:, None]
            total += tl.sum(tl.where(hidden <= 0, 0, grad_out), 0)
            if not AT_TARGET:
                weight_grad += tl.sum(tl.where(hidden <= 0, 0, grad_out * hidden), 0)
        tl.store(grad_mapped + offset, total * factor, mask=in_width)
    if not AT_TARGET:
        tl.store(grad_weight + tl.program_id(0) * WIDTH + column, weight_grad, mask=in_width)
