"""Sums over the neighbours of each node; messages are not written edge by edge.

A program takes as many nodes as it has warps, mostly of one graph, whose neighbours are the same few rows: they are
read from memory once and then from the cache next to the processor.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Edges
from outland.ops.triton.rows import rows_at_once

WARPS, SMALL_WARPS, SMALL = 16, 4, 2048  # of a program, where there are more nodes than that, and where not
COLUMNS = 128  # of a block
DEPTH, WHOLE_DEPTH = 4, 2  # neighbours read at a time, by programs with some columns and with all


def sum_neighbours(x: Tensor, edges: Edges, weight: Tensor | None = None) -> Tensor:
    """See `ops.sum_neighbours`."""
    return aggregate(x, edges, weight, None, None, False)


def gin_aggregate(
    x: Tensor,
    eps: Tensor,
    edges: Edges,
    weight: Tensor | None = None,
    edge_state: Tensor | None = None,
    nonnegative: bool = False,
) -> Tensor:
    """See `ops.gin_aggregate`; a ReLU costs nothing here, so `nonnegative` is of no use."""
    return aggregate(x, edges, weight, edge_state, eps, True)


def aggregate(
    x: Tensor, edges: Edges, weight: Tensor | None, state: Tensor | None, eps: Tensor | None, relu: bool
) -> Tensor:
    r""":math:`(1+\epsilon)\,x_i + \sum_{j \to i} w_{ji}\,\phi(x_j + e_{ji})`, φ ReLU or identity; no x_i if no ε."""
    state = None if state is None else state.contiguous()
    return _Aggregate.apply(x.contiguous(), weight, state, eps, relu, edges)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, state: Tensor | None, eps: Tensor | None, relu: bool, edges: Edges
    ) -> Tensor:
        assert edges.incoming is not None
        rowptr, perm, col = edges.incoming
        out = torch.empty_like(x)
        grid, tile, warps = _tile(x, col, whole=False)
        flags = (weight is not None, state is not None, eps is not None, relu, perm is not None)
        _aggregate_forward[grid](
            x, weight, state, eps, rowptr, perm, col, out, *x.shape, *flags, *tile, num_warps=warps
        )
        ctx.save_for_backward(x, weight, state, eps)
        ctx.relu, ctx.outgoing = relu, edges.outgoing
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, state, eps = ctx.saved_tensors
        rowptr, perm, col = ctx.outgoing
        needs = needs_x, needs_weight, needs_state, needs_eps = ctx.needs_input_grad[:4]
        grid, tile, warps = _tile(x, col, whole=needs_weight)
        grad_x = torch.empty_like(x) if needs_x else None
        grad_weight = torch.empty_like(weight) if needs_weight else None
        grad_state = torch.empty_like(state) if needs_state else None
        grad_eps = x.new_empty(grid, dtype=torch.float32) if needs_eps else None
        flags = (weight is not None, state is not None, eps is not None, ctx.relu, perm is not None)
        _aggregate_backward[grid](
            x, weight, state, eps, grad.contiguous(), rowptr, perm, col, grad_x, grad_weight, grad_state, grad_eps,
            *x.shape, len(col), *flags, *needs, *tile, num_warps=warps,
        )  # fmt: skip
        total = None if grad_eps is None else grad_eps.sum().reshape(eps.shape).to(eps.dtype)
        return grad_x, grad_weight, grad_state, total, None, None


def _tile(x: Tensor, col: Tensor, whole: bool) -> tuple[tuple[int, int], tuple[int, int, int, int], int]:
    """The grid, a program's tile (neighbours, blocks of columns, nodes, columns of a block), and its warps.

    A warp has a row of a node; `whole` is all blocks of columns in one program.
    """
    (nodes, width), warps = x.shape, WARPS if len(x) > SMALL else SMALL_WARPS
    columns = triton.next_power_of_2(min(width, COLUMNS))
    blocks = triton.cdiv(width, columns)
    rows, together = warps * max(1, 128 // columns), triton.next_power_of_2(blocks) if whole else 1
    depth = rows_at_once(col, nodes, DEPTH if together == 1 else WHOLE_DEPTH)
    return (triton.cdiv(nodes, rows), triton.cdiv(blocks, together)), (depth, together, rows, columns), warps


@triton.jit
def _group(rowptr, count, R: tl.constexpr):
    """Nodes of a program, which of them exist, and where the edges of each begin and end."""
    node = tl.program_id(0) * R + tl.arange(0, R)
    exists = node < count
    first, last = tl.load(rowptr + node, mask=exists, other=0), tl.load(rowptr + node + 1, mask=exists, other=0)
    return node, exists, first.to(tl.int32), last.to(tl.int32)


@triton.jit
def _columns(B: tl.constexpr, C: tl.constexpr):
    """Columns of a program, block by block `[B, 1, C]`."""
    block = tl.program_id(1) * B + tl.arange(0, B)
    return block[:, None, None] * C + tl.arange(0, C)[None, None, :]


@triton.jit
def _edge(perm, position, in_group, PERM: tl.constexpr):
    """The edges at some positions of a grouping."""
    edge = position.to(tl.int64)
    if PERM:
        edge = tl.load(perm + position, mask=in_group, other=0)
    return edge


@triton.jit
def _rows(values, row, column, mask, WIDTH: tl.constexpr):
    """Rows `[K, B, R, C]` of the values at `row` `[K, R]`."""
    offset = row[:, None, :, None] * WIDTH + column[None, :, :, :]
    return tl.load(values + offset, mask=mask, other=0).to(tl.float32)


@triton.jit(do_not_specialize=["count"])
def _aggregate_forward(
    x, weight, state, eps, rowptr, perm, col, out, count, WIDTH: tl.constexpr,
    WEIGHT: tl.constexpr, STATE: tl.constexpr, EPS: tl.constexpr, RELU: tl.constexpr, PERM: tl.constexpr,
    K: tl.constexpr, B: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    column = _columns(B, C)
    node, exists, first, last = _group(rowptr, count, R)
    total = tl.zeros((B, R, C), tl.float32)
    for start in range(0, tl.max(last - first, 0), K):
        position = (first + start)[None, :] + tl.arange(0, K)[:, None]
        in_group = position < last[None, :]
        mask = in_group[:, None, :, None] & (column < WIDTH)[None, :, :, :]
        message = _rows(x, tl.load(col + position, mask=in_group, other=0), column, mask, WIDTH)
        edge = _edge(perm, position, in_group, PERM)
        if STATE:
            message += _rows(state, edge, column, mask, WIDTH)
        if RELU:
            message = tl.where(message < 0, 0, message)
        if WEIGHT:
            message *= tl.load(weight + edge, mask=in_group, other=0).to(tl.float32)[:, None, :, None]
        total += tl.sum(message, 0)
    offset, mask = node[None, :, None] * WIDTH + column, exists[None, :, None] & (column < WIDTH)
    if EPS:
        total += (1 + tl.load(eps)) * tl.load(x + offset, mask=mask, other=0).to(tl.float32)
    tl.store(out + offset, total, mask=mask)


@triton.jit
def _zero_padding(
    grad_weight, grad_state, last_ptr, rows, column, WIDTH: tl.constexpr,
    GRAD_WEIGHT: tl.constexpr, GRAD_STATE: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """No gradient to edges of no group, which are the last rows."""
    for padding in range(tl.load(last_ptr) + tl.program_id(0), rows, tl.num_programs(0)):
        if GRAD_WEIGHT:
            tl.store(grad_weight + padding, 0.0)
        if GRAD_STATE:
            tl.store(grad_state + padding * WIDTH + column, tl.zeros((B, 1, C), tl.float32), mask=column < WIDTH)


@triton.jit
def _message_backward(grad, message, weight, edge, in_group, WEIGHT: tl.constexpr, RELU: tl.constexpr):
    """The gradient before an edge's weight and ReLU."""
    if WEIGHT:
        grad *= tl.load(weight + edge, mask=in_group, other=0).to(tl.float32)[:, None, :, None]
    if RELU:
        grad = tl.where(message > 0, grad, 0)
    return grad


@triton.jit(do_not_specialize=["count", "rows"])
def _aggregate_backward(
    x, weight, state, eps, grad, rowptr, perm, col, grad_x, grad_weight, grad_state, grad_eps,
    count, WIDTH: tl.constexpr, rows,
    WEIGHT: tl.constexpr, STATE: tl.constexpr, EPS: tl.constexpr, RELU: tl.constexpr, PERM: tl.constexpr,
    GRAD_X: tl.constexpr, GRAD_WEIGHT: tl.constexpr, GRAD_STATE: tl.constexpr, GRAD_EPS: tl.constexpr,
    K: tl.constexpr, B: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """For each source: the gradients of its row, and of the weights and rows of its outgoing edges."""
    column = _columns(B, C)
    _zero_padding(grad_weight, grad_state, rowptr + count, rows, column, WIDTH, GRAD_WEIGHT, GRAD_STATE, B, C)
    node, exists, first, last = _group(rowptr, count, R)
    offset, in_rows = node[None, :, None] * WIDTH + column, exists[None, :, None] & (column < WIDTH)
    value = tl.load(x + offset, mask=in_rows, other=0).to(tl.float32)
    total = tl.zeros((B, R, C), tl.float32)
    for start in range(0, tl.max(last - first, 0), K):
        position = (first + start)[None, :] + tl.arange(0, K)[:, None]
        in_group = position < last[None, :]
        mask = in_group[:, None, :, None] & (column < WIDTH)[None, :, :, :]
        grad_out = _rows(grad, tl.load(col + position, mask=in_group, other=0), column, mask, WIDTH)
        edge = _edge(perm, position, in_group, PERM)
        message = tl.zeros((K, B, R, C), tl.float32) + value[None, :, :, :]
        if STATE:
            message += _rows(state, edge, column, mask, WIDTH)
        if GRAD_WEIGHT:
            activated = tl.where(message < 0, 0, message) if RELU else message
            tl.store(grad_weight + edge, tl.sum(tl.sum(activated * grad_out, 1), 2), mask=in_group)
        grad_out = _message_backward(grad_out, message, weight, edge, in_group, WEIGHT, RELU)
        if GRAD_STATE:
            tl.store(grad_state + edge[:, None, :, None] * WIDTH + column[None, :, :, :], grad_out, mask=mask)
        total += tl.sum(grad_out, 0)
    if EPS:
        grad_node = tl.load(grad + offset, mask=in_rows, other=0).to(tl.float32)
        total += (1 + tl.load(eps)) * grad_node
        if GRAD_EPS:
            tl.store(grad_eps + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tl.sum(grad_node * value))
    if GRAD_X:
        tl.store(grad_x + offset, total, mask=in_rows)
