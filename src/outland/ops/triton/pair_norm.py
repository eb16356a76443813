"""A linear map of both ends of every edge, normalised within each graph, whose raw rows are written nowhere.

A row is the sum of two rows of `mapped` `[N, 2k]`, which stay in the caches, and is summed anew where it is needed.
Forward, and for the sums over graphs back, a program takes some columns of a graph; for gradients it takes some of a
node, once for the edges that leave it and once for those that reach it.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Edges, Segments
from outland.ops.dropout import DropoutDraws, KernelDraws, activate, kernel_draws
from outland.ops.triton.aggregate import edge_at
from outland.ops.triton.norm_kernels import drop_tile, tile_at
from outland.ops.triton.pair import map_ends
from outland.ops.triton.rows import rows_at_once
from outland.ops.triton.segment_norm import zero_padding

_TILE_ROWS, _TILE_COLUMNS = 16, 64
_GRAD_COLUMNS = 256  # of a node


def pair_norm(
    h: Tensor,
    weight: Tensor,
    edges: Edges,
    segments: Segments,
    relu: bool = False,
    dropout: DropoutDraws | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """See `ops.pair_norm`."""
    draws = kernel_draws(dropout, h.device)
    out: Tensor = _PairNorm.apply(map_ends(h, weight), edges, segments, relu, draws, eps)
    return activate(out, False, dropout) if draws[1] is None else out


class _PairNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, mapped: Tensor, edges: Edges, segments: Segments, relu: bool, draws: KernelDraws, eps: float
    ) -> Tensor:
        index, *ctx.grouped = edges
        assert segments.ptr is not None
        ptr, count, width = segments.ptr[: len(segments.sizes) + 1], index.shape[1], mapped.shape[1] // 2
        out, stats = mapped.new_empty(count, width), mapped.new_empty(2, len(ptr) - 1, width, dtype=torch.float32)
        ctx.p, seed, ctx.salt = draws
        ctx.relu, index = relu, index.contiguous()
        grid, tile = _grid(ptr, width)
        _pair_norm_forward[grid](
            mapped, index, ptr, seed, out, stats, count, width, eps, ctx.p, ctx.salt, relu, seed is not None, *tile
        )
        ctx.save_for_backward(mapped, index, segments.batch, ptr, stats, seed)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        mapped, index, batch, ptr, stats, seed = ctx.saved_tensors
        (rowptr_in, perm_in, sources), (rowptr_out, perm_out, targets) = ctx.grouped
        grad, (count, width) = grad.contiguous(), grad.shape
        means, grad_mapped, (grid, tile) = torch.empty_like(stats), torch.empty_like(mapped), _grid(ptr, width)
        drops = ctx.p, ctx.salt, ctx.relu, seed is not None
        _pair_norm_grad_means[grid](mapped, index, ptr, seed, stats, grad, means, count, width, *drops, *tile)
        columns = max(4, min(triton.next_power_of_2(width), _GRAD_COLUMNS))
        _pair_norm_backward[len(mapped), triton.cdiv(width, columns)](
            mapped, batch, ptr, seed, stats, means, grad, grad_mapped, len(ptr) - 1,
            rowptr_in, perm_in, sources, rowptr_out, perm_out, targets, width, *drops,
            perm_in is not None, perm_out is not None, rows_at_once(grad, len(mapped)), columns,
        )  # fmt: skip
        return grad_mapped, None, None, None, None, None


def _grid(ptr: Tensor, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Graphs and blocks of columns, and the edges and columns of a tile."""
    columns = max(4, min(triton.next_power_of_2(width), _TILE_COLUMNS))
    return (len(ptr) - 1, triton.cdiv(width, columns)), (_TILE_ROWS, columns)


@triton.jit
def _pair_tile(mapped, edge_index, edges, edge, in_graph, column, WIDTH: tl.constexpr):
    """The rows of some edges, in some columns, before the norm."""
    mask = in_graph[:, None] & (column < WIDTH)[None, :]
    source = tl.load(edge_index + edge, mask=in_graph, other=0)
    target = tl.load(edge_index + edges + edge, mask=in_graph, other=0)
    at_source = mapped + source[:, None] * (2 * WIDTH) + column[None, :]
    at_target = mapped + target[:, None] * (2 * WIDTH) + WIDTH + column[None, :]
    value = tl.load(at_source, mask=mask, other=0).to(tl.float32)
    return value + tl.load(at_target, mask=mask, other=0).to(tl.float32)


@triton.jit(do_not_specialize=["edges", "salt"])
def _pair_norm_forward(
    mapped, edge_index, ptr, seed, out, stats, edges, WIDTH: tl.constexpr, eps, p, salt,
    RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Of each graph: mean and 1/deviation, and the rows of its edges; the rows of padding are 0."""
    graph, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < WIDTH
    zero_padding(out, tl.load(ptr + tl.num_programs(0)), edges, column, WIDTH, R)
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    alone = first + tl.zeros((1,), tl.int64)
    pivot = _pair_tile(mapped, edge_index, edges, alone, alone < last, column, WIDTH)
    sums = tl.zeros((R, C), tl.float32)
    squares = tl.zeros((R, C), tl.float32)
    for start in range(first, last, R):
        edge = start + tl.arange(0, R)
        value = _pair_tile(mapped, edge_index, edges, edge, edge < last, column, WIDTH)
        value = tl.where((edge < last)[:, None], value - pivot, 0)  # what is left of the first row keeps the digits
        sums += value
        squares += value * value
    count = tl.maximum(last - first, 1).to(tl.float32)
    step = tl.sum(sums, 0) / count
    variance = tl.sum(squares, 0) / count - step * step
    mean, scale = tl.sum(pivot, 0) + step, tl.rsqrt(tl.where(variance < 0, 0, variance) + eps)
    offset = graph * WIDTH + column
    tl.store(stats + offset, mean, mask=valid)
    tl.store(stats + tl.num_programs(0) * WIDTH + offset, scale, mask=valid)
    for start in range(first, last, R):
        edge = start + tl.arange(0, R)
        value = _pair_tile(mapped, edge_index, edges, edge, edge < last, column, WIDTH)
        value = (value - mean[None, :]) * scale[None, :]
        if RELU:
            value = tl.where(value < 0, 0, value)  # not a maximum, which would make 0 of NaN
        if DROP:
            value = drop_tile(value, seed, salt, p, edge.to(tl.int32), WIDTH, C)
        offsets, mask = tile_at(last, edge, column, WIDTH)
        tl.store(out + offsets, value, mask=mask)


@triton.jit
def _graph_pair(pairs, graph, graphs, column, valid, WIDTH: tl.constexpr):
    """Two numbers of each column of a graph: mean and 1/deviation, or the means of two gradients."""
    offset = graph * WIDTH + column
    first = tl.load(pairs + offset, mask=valid, other=0)
    return first, tl.load(pairs + graphs * WIDTH + offset, mask=valid, other=0)


@triton.jit
def _tile_gradient(
    grad, edge, in_graph, column, value, seed, salt, p,
    WIDTH: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient to the normalised values of some edges, before dropout and ReLU; 0 for what is no edge."""
    mask = in_graph[:, None] & (column < WIDTH)[None, :]
    grad_out = tl.load(grad + edge[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
    if DROP:
        grad_out = drop_tile(grad_out, seed, salt, p, edge.to(tl.int32), WIDTH, C)
    if RELU:
        grad_out = tl.where(value <= 0, 0, grad_out)
    return grad_out


@triton.jit(do_not_specialize=["edges", "salt"])
def _pair_norm_grad_means(
    mapped, edge_index, ptr, seed, stats, grad, means, edges, WIDTH: tl.constexpr, p, salt,
    RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Of each graph: the means of gradients, and of gradients times normalised values."""
    graph, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    mean, scale = _graph_pair(stats, graph, tl.num_programs(0), column, column < WIDTH, WIDTH)
    grads = tl.zeros((R, C), tl.float32)
    products = tl.zeros((R, C), tl.float32)
    for start in range(first, last, R):
        edge = start + tl.arange(0, R)
        value = _pair_tile(mapped, edge_index, edges, edge, edge < last, column, WIDTH)
        value = (value - mean[None, :]) * scale[None, :]
        grad_out = _tile_gradient(grad, edge, edge < last, column, value, seed, salt, p, WIDTH, RELU, DROP, C)
        grads += grad_out
        products += grad_out * value
    count, offset = tl.maximum(last - first, 1).to(tl.float32), graph * WIDTH + column
    tl.store(means + offset, tl.sum(grads, 0) / count, mask=column < WIDTH)
    tl.store(means + tl.num_programs(0) * WIDTH + offset, tl.sum(products, 0) / count, mask=column < WIDTH)


@triton.jit
def _end_gradient(
    mapped, batch, seed, stats, means, grad, graphs, padding, node, rowptr, perm, col, column, WIDTH: tl.constexpr,
    p, salt, RELU: tl.constexpr, DROP: tl.constexpr, PERM: tl.constexpr, AT_TARGET: tl.constexpr,
    K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient of one half of a row of `mapped`, that of a source or of a target, over the edges at that end."""
    half = WIDTH if AT_TARGET else 0
    other_half = WIDTH - half
    first, last = tl.load(rowptr + node), tl.load(rowptr + node + 1)
    # All edges of a node are of its graph, but for padding, which comes last.
    graph = tl.load(batch + edge_at(perm, first, first < last, PERM), mask=first < last, other=graphs)
    in_width = column < WIDTH
    valid = column < tl.where(graph < graphs, WIDTH, 0)  # a node without edges is of no graph, and has gradient 0
    mean, scale = _graph_pair(stats, graph, graphs, column, valid, WIDTH)
    grad_mean, product_mean = _graph_pair(means, graph, graphs, column, valid, WIDTH)
    near = tl.load(mapped + node * (2 * WIDTH) + half + column, mask=in_width, other=0).to(tl.float32)
    total = tl.zeros((K, C), tl.float32)
    for start in range(first, last, K):
        position = start + tl.arange(0, K)
        in_group = position < last
        edge = edge_at(perm, position, in_group, PERM)
        in_graph = in_group & (edge < padding)
        far = tl.load(col + position, mask=in_group, other=0)
        at_far = mapped + far[:, None] * (2 * WIDTH) + other_half + column[None, :]
        value = tl.load(at_far, mask=in_graph[:, None] & in_width[None, :], other=0).to(tl.float32) + near[None, :]
        value = (value - mean[None, :]) * scale[None, :]
        grad_out = _tile_gradient(grad, edge, in_graph, column, value, seed, salt, p, WIDTH, RELU, DROP, C)
        total += tl.where(in_graph[:, None], grad_out - grad_mean[None, :] - value * product_mean[None, :], 0)
    return tl.sum(total, 0) * scale


@triton.jit(do_not_specialize=["graphs", "salt"])
def _pair_norm_backward(
    mapped, batch, ptr, seed, stats, means, grad, grad_mapped, graphs,
    rowptr_in, perm_in, sources, rowptr_out, perm_out, targets, WIDTH: tl.constexpr, p, salt,
    RELU: tl.constexpr, DROP: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient of a row of `mapped`, as a source and as a target."""
    node, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    offset, in_width, padding = grad_mapped + node * (2 * WIDTH) + column, column < WIDTH, tl.load(ptr + graphs)
    at_source = _end_gradient(
        mapped, batch, seed, stats, means, grad, graphs, padding, node, rowptr_out, perm_out, targets, column, WIDTH,
        p, salt, RELU, DROP, OUT, False, K, C,
    )  # fmt: skip
    tl.store(offset, at_source, mask=in_width)
    at_target = _end_gradient(
        mapped, batch, seed, stats, means, grad, graphs, padding, node, rowptr_in, perm_in, sources, column, WIDTH,
        p, salt, RELU, DROP, IN, True, K, C,
    )  # fmt: skip
    tl.store(offset + WIDTH, at_target, mask=in_width)
