"""Sums over the neighbours of each node, one program a node; messages are not written edge by edge.

Rows of edges that are sums of embeddings are looked up, and not written either.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Edges
from outland.ops.rows import EmbeddedRows, Rows
from outland.ops.triton.embeddings import (
    COLUMNS,
    ROWS,
    counted_entries,
    embedded_tile,
    store_part,
    table_blocks,
)
from outland.ops.triton.rows import column_blocks, rows_at_once


def sum_neighbours(x: Tensor, edges: Edges, weight: Tensor | None = None) -> Tensor:
    """See `ops.sum_neighbours`."""
    return aggregate(x, edges, weight, None, None, False)


def gin_aggregate(
    x: Tensor,
    eps: Tensor,
    edges: Edges,
    weight: Tensor | None = None,
    edge_state: Rows | None = None,
    nonnegative: bool = False,
) -> Tensor:
    """See `ops.gin_aggregate`; a ReLU costs nothing here, so `nonnegative` is of no use."""
    return aggregate(x, edges, weight, edge_state, eps, True)


def aggregate(
    x: Tensor, edges: Edges, weight: Tensor | None, state: Rows | None, eps: Tensor | None, relu: bool
) -> Tensor:
    r""":math:`(1+\epsilon)\,x_i + \sum_{j \to i} w_{ji}\,\phi(x_j + e_{ji})`, φ ReLU or identity; no x_i if no ε."""
    table, values, offsets = state if isinstance(state, EmbeddedRows) else (state, None, None)
    table, values = (None if rows is None else rows.contiguous() for rows in (table, values))
    return _Aggregate.apply(x.contiguous(), weight, table, eps, values, offsets, relu, edges)


class _Aggregate(torch.autograd.Function):
    """`state` are the rows of edges, or with `values` and `offsets` the table that these are embedded by."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        state: Tensor | None,
        eps: Tensor | None,
        values: Tensor | None,
        offsets: Tensor | None,
        relu: bool,
        edges: Edges,
    ) -> Tensor:
        assert edges.incoming is not None
        rowptr, perm, col = edges.incoming
        out = torch.empty_like(x)
        block, (rows, blocks) = column_blocks(*x.shape)
        depth = rows_at_once(col, rows)
        nodes, warps = _nodes_and_warps(rows, depth, whole=False)
        flags = (weight is not None, state is not None, eps is not None, relu, perm is not None)
        _aggregate_forward[triton.cdiv(rows, nodes), blocks](
            x, weight, state, eps, values, offsets, rowptr, perm, col, out, rows, x.shape[1],
            *flags, _features(values), nodes, depth, block, num_warps=warps,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, state, eps, values, offsets)
        ctx.relu, ctx.edges = relu, edges
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, state, eps, values, offsets = ctx.saved_tensors
        rowptr, perm, col = ctx.edges.outgoing
        needs_x, needs_weight, needs_state, needs_eps = ctx.needs_input_grad[:4]
        needs_rows = needs_state and values is None
        grad = grad.contiguous()
        block, (_, blocks) = column_blocks(len(x), x.shape[1], needs_weight)
        grad_x = torch.empty_like(x) if needs_x else None
        grad_weight = torch.empty_like(weight) if needs_weight else None
        grad_rows = torch.empty_like(state) if needs_rows else None
        flags = (weight is not None, state is not None, eps is not None, ctx.relu, perm is not None)
        depth = rows_at_once(col, len(x))
        nodes, warps = _nodes_and_warps(len(x), depth, needs_weight)
        grid = triton.cdiv(len(x), nodes), blocks
        grad_eps = x.new_empty(grid, dtype=torch.float32) if needs_eps else None
        _aggregate_backward[grid](
            x, weight, state, eps, values, offsets, grad, rowptr, perm, col, grad_x, grad_weight, grad_rows, grad_eps,
            len(x), x.shape[1], len(col), *flags, _features(values), needs_x, needs_weight, needs_rows, needs_eps,
            nodes, depth, block, num_warps=warps,
        )  # fmt: skip
        total = None if grad_eps is None else grad_eps.sum().reshape(eps.shape).to(eps.dtype)
        grad_state = grad_rows
        if needs_state and values is not None:
            rows = EmbeddedRows(state, values, offsets)
            grad_state = _table_gradient(x, weight, rows, grad, ctx.edges, ctx.relu)
        return grad_x, grad_weight, grad_state, total, None, None, None, None


def _features(values: Tensor | None) -> int:
    """Columns of categories that rows are embedded by; 0 where rows are given."""
    return 0 if values is None else values.shape[1]


def _table_gradient(
    x: Tensor, weight: Tensor | None, rows: EmbeddedRows, grad: Tensor, edges: Edges, relu: bool
) -> Tensor:
    """The gradient of the table that edges are embedded by, from that of the sums over neighbours."""
    assert edges.outgoing is not None
    (table, values, offsets), (rowptr, perm, col) = rows, edges.outgoing
    parts, rows_each, grid, tile_entries = table_blocks(grad, len(col), *table.shape)
    if len(col):
        _table_gradient_parts[grid](
            x, weight, table, values, offsets, grad, edges.edge_index.contiguous(), rowptr, perm, col, parts,
            len(x), table.shape[1], len(table), rows_each, values.shape[1], weight is not None, relu, perm is not None,
            tile_entries, ROWS, COLUMNS, num_stages=1,  # copies ahead of their use would pass L1 by
        )  # fmt: skip
    return parts.sum(0).to(table.dtype)


def _nodes_and_warps(nodes: int, depth: int, whole: bool) -> tuple[int, int]:
    """Nodes that a program takes one after another, and its warps: the fastest measured on an H200.

    Neighbours of one node are often neighbours of the next, which pays on large, dense batches.
    """
    large, dense = nodes > 8192, depth > 2
    if whole:
        return (4, 2) if large and dense else (1, 1)
    return 4 if nodes > 2048 else 1, 1 if large else 4


@triton.jit
def edge_at(perm, position, in_group, PERM: tl.constexpr):
    """The edges at some positions of a grouping."""
    edge = position
    if PERM:
        edge = tl.load(perm + position, mask=in_group, other=0)
    return edge


@triton.jit
def _edge_rows(
    state, values, offsets, edge, in_group, column, mask, WIDTH: tl.constexpr, FEATURES: tl.constexpr
):  # fmt: skip
    """The rows of some edges, in some columns: as they are, or embedded."""
    if FEATURES:
        rows = embedded_tile(state, values, offsets, edge, in_group, column, mask, WIDTH, FEATURES)
    else:
        rows = tl.load(state + edge[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
    return rows


@triton.jit(do_not_specialize=["count"])
def _aggregate_forward(
    x, weight, state, eps, values, offsets, rowptr, perm, col, out, count, WIDTH: tl.constexpr,
    WEIGHT: tl.constexpr, STATE: tl.constexpr, EPS: tl.constexpr, RELU: tl.constexpr, PERM: tl.constexpr,
    FEATURES: tl.constexpr, NODES: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < WIDTH
    begin = tl.program_id(0).to(tl.int64) * NODES
    for node in range(begin, tl.minimum(begin + NODES, count)):
        total = tl.zeros((C,), tl.float32)
        first, last = tl.load(rowptr + node), tl.load(rowptr + node + 1)
        for start in range(first, last, K):
            position = start + tl.arange(0, K)
            in_group = position < last
            mask = in_group[:, None] & in_width[None, :]
            source = tl.load(col + position, mask=in_group, other=0)
            message = tl.load(x + source[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
            edge = edge_at(perm, position, in_group, PERM)
            if STATE:
                message += _edge_rows(state, values, offsets, edge, in_group, column, mask, WIDTH, FEATURES)
            if RELU:
                message = tl.where(message < 0, 0, message)
            if WEIGHT:
                message *= tl.load(weight + edge, mask=in_group, other=0).to(tl.float32)[:, None]
            total += tl.sum(message, 0)
        offset = node * WIDTH + column
        if EPS:
            total += (1 + tl.load(eps)) * tl.load(x + offset, mask=in_width, other=0).to(tl.float32)
        tl.store(out + offset, total, mask=in_width)


@triton.jit
def _zero_padding(
    grad_weight, grad_rows, last_ptr, rows, column, WIDTH: tl.constexpr,
    GRAD_WEIGHT: tl.constexpr, GRAD_ROWS: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """No gradient to edges of no group, which are the last rows."""
    for padding in range(tl.load(last_ptr) + tl.program_id(0), rows, tl.num_programs(0)):
        if GRAD_WEIGHT:
            tl.store(grad_weight + padding, 0.0)
        if GRAD_ROWS:
            tl.store(grad_rows + padding * WIDTH + column, tl.zeros((C,), tl.float32), mask=column < WIDTH)


@triton.jit
def _message_backward(grad, message, weight, edge, in_group, WEIGHT: tl.constexpr, RELU: tl.constexpr):
    """The gradient before an edge's weight and ReLU."""
    if WEIGHT:
        grad *= tl.load(weight + edge, mask=in_group, other=0).to(tl.float32)[:, None]
    if RELU:
        grad = tl.where(message > 0, grad, 0)
    return grad


@triton.jit(do_not_specialize=["count", "rows"])
def _aggregate_backward(
    x, weight, state, eps, values, offsets, grad, rowptr, perm, col, grad_x, grad_weight, grad_rows, grad_eps,
    count, WIDTH: tl.constexpr, rows,
    WEIGHT: tl.constexpr, STATE: tl.constexpr, EPS: tl.constexpr, RELU: tl.constexpr, PERM: tl.constexpr,
    FEATURES: tl.constexpr,
    GRAD_X: tl.constexpr, GRAD_WEIGHT: tl.constexpr, GRAD_ROWS: tl.constexpr, GRAD_EPS: tl.constexpr,
    NODES: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """For each source: the gradients of its row, and of the weights and rows of its outgoing edges."""
    column = tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < WIDTH
    _zero_padding(grad_weight, grad_rows, rowptr + count, rows, column, WIDTH, GRAD_WEIGHT, GRAD_ROWS, C)
    begin = tl.program_id(0).to(tl.int64) * NODES
    of_eps = tl.zeros((C,), tl.float32)
    for node in range(begin, tl.minimum(begin + NODES, count)):
        offset = node * WIDTH + column
        value = tl.load(x + offset, mask=in_width, other=0).to(tl.float32)
        total = tl.zeros((C,), tl.float32)
        first, last = tl.load(rowptr + node), tl.load(rowptr + node + 1)
        for start in range(first, last, K):
            position = start + tl.arange(0, K)
            in_group = position < last
            mask = in_group[:, None] & in_width[None, :]
            target = tl.load(col + position, mask=in_group, other=0)
            grad_out = tl.load(grad + target[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
            edge = edge_at(perm, position, in_group, PERM)
            message = tl.zeros((K, C), tl.float32) + value[None, :]
            if STATE:
                message += _edge_rows(state, values, offsets, edge, in_group, column, mask, WIDTH, FEATURES)
            if GRAD_WEIGHT:
                activated = tl.where(message < 0, 0, message) if RELU else message
                tl.store(grad_weight + edge, tl.sum(activated * grad_out, 1), mask=in_group)
            grad_out = _message_backward(grad_out, message, weight, edge, in_group, WEIGHT, RELU)
            if GRAD_ROWS:
                tl.store(grad_rows + edge[:, None] * WIDTH + column[None, :], grad_out, mask=mask)
            total += tl.sum(grad_out, 0)
        if EPS:
            grad_node = tl.load(grad + offset, mask=in_width, other=0).to(tl.float32)
            total += (1 + tl.load(eps)) * grad_node
            of_eps += grad_node * value
        if GRAD_X:
            tl.store(grad_x + offset, total, mask=in_width)
    if GRAD_EPS:
        tl.store(grad_eps + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tl.sum(of_eps, 0))


@triton.jit(do_not_specialize=["nodes", "rows_each"])
def _table_gradient_parts(
    x, weight, table, values, offsets, grad, source, rowptr, perm, col, parts,
    nodes, WIDTH: tl.constexpr, entries, rows_each, FEATURES: tl.constexpr,
    WEIGHT: tl.constexpr, RELU: tl.constexpr, PERM: tl.constexpr,
    V: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient of some entries of the table from a block of edges, grouped by source."""
    column, entry = tl.program_id(1) * C + tl.arange(0, C), tl.program_id(2) * V + tl.arange(0, V)
    last, total = tl.load(rowptr + nodes), tl.zeros((V, C), tl.float32)
    for start in range(0, rows_each, R):
        position = tl.program_id(0).to(tl.int64) * rows_each + start + tl.arange(0, R)
        in_edges = position < last
        edge = edge_at(perm, position, in_edges, PERM)
        node = tl.load(source + edge, mask=in_edges, other=0)
        target = tl.load(col + position, mask=in_edges, other=0)
        mask = in_edges[:, None] & (column < WIDTH)[None, :]
        message = tl.load(x + node[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
        message += embedded_tile(table, values, offsets, edge, in_edges, column, mask, WIDTH, FEATURES)
        grad_out = tl.load(grad + target[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
        grad_out = _message_backward(grad_out, message, weight, edge, in_edges, WEIGHT, RELU)
        counts = counted_entries(values, offsets, edge, in_edges, entry, FEATURES, V, R)
        total += tl.dot(counts, grad_out, input_precision="ieee")
    store_part(parts, total, entry, entries, column, WIDTH)
