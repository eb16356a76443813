"""Sums over the edges at each node, one program a node: what edges carry is never written down edge by edge.

Groups of edges come as three tensors, as in `graphs.Wires`: where each node's group begins `[N + 1]`, the edge rows
group by group `[E]` (None where they stand so), and the node at the other end of each `[E]`. Edges of no group are the
last rows.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

Groups = tuple[Tensor, Tensor | None, Tensor]
WIDEST = 1024  # columns that one program holds at a time


def hear(
    x: Tensor,
    weight: Tensor | None,
    state: Tensor | None,
    eps: Tensor | None,
    relu: bool,
    incoming: Groups,
    outgoing: Groups,
) -> Tensor:
    r"""What nodes hear: :math:`(1+\epsilon)\,x_i + \sum_{j \to i} w_{ji}\,\phi(x_j + e_{ji})`.

    Args:
        x: a row for each node `[N, d]`.
        weight: of each edge `[E]`; None is 1.
        state: a row for each edge `[E, d]`; None is 0.
        eps: one number; None leaves the node's own row out.
        relu: whether φ is ReLU, or nothing.
        incoming, outgoing: the edges by target and by source.
    """
    state = None if state is None else state.contiguous()
    heard: Tensor = _Hear.apply(x.contiguous(), weight, state, eps, relu, incoming, outgoing)
    return heard


def gather_sum(values: Tensor, groups: Groups, mean: bool = False) -> Tensor:
    """Sum, or mean, of the rows `[E, d]` in each group; an empty group has 0. No gradient."""
    values, count = values.contiguous(), len(groups[0]) - 1
    out = values.new_empty(count, values.shape[1])
    block, grid = _columns(count, values.shape[1])
    pointers, rows, _ = groups
    deep = _deep(values, count, 1024 // block)
    _sum_groups[grid](values, pointers, rows, out, values.shape[1], mean, rows is not None, deep, block)
    return out


def pool(values: Tensor, owner: Tensor, pointers: Tensor, mean: bool) -> Tensor:
    """Sum, or mean, of groups of rows `[N, d]` that stand one after another; rows of no group are left out."""
    total: Tensor = _Pool.apply(values, owner, pointers, mean)
    return total


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, owner: Tensor, pointers: Tensor, mean: bool) -> Tensor:
        ctx.save_for_backward(owner, pointers)
        ctx.mean = mean
        return gather_sum(values, (pointers, None, owner), mean)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        owner, pointers = ctx.saved_tensors
        out = slope.new_empty(len(owner), slope.shape[1])
        block, (rows, blocks) = _columns(len(owner), slope.shape[1])
        tall = max(1, 512 // block)
        _spread[triton.cdiv(rows, tall), blocks](
            slope.contiguous(), owner, pointers, out, len(slope), rows, slope.shape[1], ctx.mean, tall, block
        )
        return out, None, None, None


class _Hear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        state: Tensor | None,
        eps: Tensor | None,
        relu: bool,
        incoming: Groups,
        outgoing: Groups,
    ) -> Tensor:
        pointers, edges, nodes = incoming
        out = torch.empty_like(x)
        block, (rows, blocks) = _columns(*x.shape)
        deep = _deep(nodes, rows)
        many, warps = _pace(rows, deep, whole=False)
        flags = (weight is not None, state is not None, eps is not None, relu, edges is not None)
        _hear[triton.cdiv(rows, many), blocks](
            x, weight, state, eps, pointers, edges, nodes, out, rows, x.shape[1],
            *flags, many, deep, block, num_warps=warps,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, state, eps)
        ctx.relu, ctx.outgoing = relu, outgoing
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, state, eps = ctx.saved_tensors
        pointers, edges, nodes = ctx.outgoing
        needs_x, needs_weight, needs_state, needs_eps = ctx.needs_input_grad[:4]
        block, grid = _columns(x.shape[0], x.shape[1], needs_weight)
        for_x = torch.empty_like(x) if needs_x else None
        for_weight = torch.empty_like(weight) if needs_weight else None
        for_state = torch.empty_like(state) if needs_state else None
        for_eps = x.new_empty(grid, dtype=torch.float32) if needs_eps else None
        flags = (weight is not None, state is not None, eps is not None, ctx.relu, edges is not None)
        wanted = (needs_x, needs_weight, needs_state, needs_eps)
        deep = _deep(nodes, len(x))
        many, warps = _pace(len(x), deep, needs_weight)
        _hear_back[triton.cdiv(len(x), many), grid[1]](
            x, weight, state, eps, slope.contiguous(), pointers, edges, nodes, for_x, for_weight, for_state, for_eps,
            len(x), x.shape[1], len(nodes), *flags, *wanted, many, deep, block, num_warps=warps,
        )  # fmt: skip
        total = None if for_eps is None else for_eps.sum().reshape(eps.shape).to(eps.dtype)
        return for_x, for_weight, for_state, total, None, None, None


def _columns(rows: int, width: int, whole: bool = False) -> tuple[int, tuple[int, int]]:
    """Columns a program holds, and the grid."""
    block = int(triton.next_power_of_2(width if whole else min(width, 128)))
    return block, (rows, triton.cdiv(width, block))


def _deep(edges: Tensor, groups: int, most: int = 4) -> int:
    """Rows that a program reads at a time: about as many as a group has."""
    return int(min(most, max(2, triton.next_power_of_2(len(edges) // max(groups, 1)))))


def _pace(nodes: int, deep: int, whole: bool) -> tuple[int, int]:
    """Nodes that a program sees one after another, and its warps: the fastest found on an H200.

    Neighbours of one node are often neighbours of the next, which pays on large, dense batches.
    """
    large, dense = nodes > 8192, deep > 2
    if whole:
        return (4, 2) if large and dense else (1, 1)
    return 4 if nodes > 2048 else 1, 1 if large else 4


@triton.jit(do_not_specialize=["count"])
def _hear(
    x, weight, state, eps, pointers, edges, nodes, out, count, width,
    WEIGHT: tl.constexpr, STATE: tl.constexpr, OWN: tl.constexpr, RELU: tl.constexpr, EDGES: tl.constexpr,
    MANY: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    begin = tl.program_id(0).to(tl.int64) * MANY
    for node in range(begin, tl.minimum(begin + MANY, count)):
        total = tl.zeros((C,), tl.float32)
        first, last = tl.load(pointers + node), tl.load(pointers + node + 1)
        for start in range(first, last, K):
            place = start + tl.arange(0, K)
            inside = place < last
            both = inside[:, None] & there[None, :]
            source = tl.load(nodes + place, mask=inside, other=0)
            message = tl.load(x + source[:, None] * width + column[None, :], mask=both, other=0).to(tl.float32)
            edge = place
            if EDGES:
                edge = tl.load(edges + place, mask=inside, other=0)
            if STATE:
                message += tl.load(state + edge[:, None] * width + column[None, :], mask=both, other=0).to(tl.float32)
            if RELU:
                message = tl.where(message < 0, 0, message)
            if WEIGHT:
                message *= tl.load(weight + edge, mask=inside, other=0).to(tl.float32)[:, None]
            total += tl.sum(message, 0)
        own = node * width + column
        if OWN:
            total += (1 + tl.load(eps)) * tl.load(x + own, mask=there, other=0).to(tl.float32)
        tl.store(out + own, total, mask=there)


@triton.jit(do_not_specialize=["count", "rows"])
def _hear_back(
    x, weight, state, eps, slope, pointers, edges, nodes, for_x, for_weight, for_state, for_eps, count, width, rows,
    WEIGHT: tl.constexpr, STATE: tl.constexpr, OWN: tl.constexpr, RELU: tl.constexpr, EDGES: tl.constexpr,
    FOR_X: tl.constexpr, FOR_WEIGHT: tl.constexpr, FOR_STATE: tl.constexpr, FOR_EPS: tl.constexpr,
    MANY: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """For each source: the slopes of its row, and of the weights and rows of its outgoing edges."""
    column = tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    for padding in range(tl.load(pointers + count) + tl.program_id(0), rows, tl.num_programs(0)):  # edges of no group
        if FOR_WEIGHT:
            tl.store(for_weight + padding, 0.0)
        if FOR_STATE:
            tl.store(for_state + padding * width + column, tl.zeros((C,), tl.float32), mask=there)
    begin = tl.program_id(0).to(tl.int64) * MANY
    for node in range(begin, tl.minimum(begin + MANY, count)):
        own = node * width + column
        value = tl.load(x + own, mask=there, other=0).to(tl.float32)
        total = tl.zeros((C,), tl.float32)
        first, last = tl.load(pointers + node), tl.load(pointers + node + 1)
        for start in range(first, last, K):
            place = start + tl.arange(0, K)
            inside = place < last
            both = inside[:, None] & there[None, :]
            target = tl.load(nodes + place, mask=inside, other=0)
            change = tl.load(slope + target[:, None] * width + column[None, :], mask=both, other=0).to(tl.float32)
            edge = place
            if EDGES:
                edge = tl.load(edges + place, mask=inside, other=0)
            message = tl.zeros((K, C), tl.float32) + value[None, :]
            if STATE:
                message += tl.load(state + edge[:, None] * width + column[None, :], mask=both, other=0).to(tl.float32)
            if FOR_WEIGHT:
                sent = message
                if RELU:
                    sent = tl.where(message < 0, 0, message)
                tl.store(for_weight + edge, tl.sum(sent * change, 1), mask=inside)
            if WEIGHT:
                change *= tl.load(weight + edge, mask=inside, other=0).to(tl.float32)[:, None]
            if RELU:
                change = tl.where(message > 0, change, 0)
            if FOR_STATE:
                tl.store(for_state + edge[:, None] * width + column[None, :], change, mask=both)
            total += tl.sum(change, 0)
        if OWN:
            here = tl.load(slope + own, mask=there, other=0).to(tl.float32)
            total += (1 + tl.load(eps)) * here
            if FOR_EPS:
                tl.store(for_eps + node * tl.num_programs(1) + tl.program_id(1), tl.sum(here * value, 0))
        if FOR_X:
            tl.store(for_x + own, total, mask=there)


@triton.jit
def _sum_groups(
    values, pointers, rows, out, width, MEAN: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    group, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    total = tl.zeros((C,), tl.float32)
    first, last = tl.load(pointers + group), tl.load(pointers + group + 1)
    for start in range(first, last, K):
        place = start + tl.arange(0, K)
        inside = place < last
        row = place
        if ROWS:
            row = tl.load(rows + place, mask=inside, other=0)
        both = inside[:, None] & there[None, :]
        total += tl.sum(tl.load(values + row[:, None] * width + column[None, :], mask=both, other=0).to(tl.float32), 0)
    if MEAN:
        total /= tl.maximum(last - first, 1).to(tl.float32)
    tl.store(out + group * width + column, total, mask=there)


@triton.jit(do_not_specialize=["groups", "rows"])
def _spread(values, owner, pointers, out, groups, rows, width, MEAN: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Give each row its group's, divided among its rows if they share it; 0 to a row of no group."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.program_id(1) * C + tl.arange(0, C)
    inside = row < rows
    group = tl.load(owner + row, mask=inside, other=0)
    some = tl.minimum(group, groups - 1)
    both = inside[:, None] & (column < width)[None, :]
    value = tl.load(values + some[:, None] * width + column[None, :], mask=both, other=0).to(tl.float32)
    if MEAN:
        count = tl.load(pointers + some + 1, mask=inside, other=1) - tl.load(pointers + some, mask=inside, other=0)
        value /= tl.maximum(count, 1).to(tl.float32)[:, None]
    value = tl.where((group < groups)[:, None], value, 0)
    tl.store(out + row[:, None] * width + column[None, :], value, mask=both)
