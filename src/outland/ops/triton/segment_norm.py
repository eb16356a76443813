"""Rows normalised within each graph, ReLU and dropout as one: a launch each way, a program for some columns of a graph.

It reads the rows of its graph twice, for their moments and to normalise them; no mean is written for each row.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Segments
from outland.ops.dropout import DropoutDraws, KernelDraws, activate, kernel_draws
from outland.ops.triton.norm_kernels import drop_tile, tile_at

_TILE_ROWS, _TILE_COLUMNS = 16, 64


def segment_norm(
    values: Tensor, segments: Segments, relu: bool = False, dropout: DropoutDraws | None = None, eps: float = 1e-5
) -> Tensor:
    """See `ops.segment_norm`."""
    draws = kernel_draws(dropout, values.device)
    assert segments.ptr is not None
    ptr = segments.ptr[: len(segments.sizes) + 1]
    out: Tensor = _SegmentNorm.apply(values.contiguous(), ptr, relu, draws, eps)
    return activate(out, False, dropout) if draws[1] is None else out


class _SegmentNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, relu: bool, draws: KernelDraws, eps: float) -> Tensor:
        out, stats = torch.empty_like(x), x.new_empty(2, len(ptr) - 1, x.shape[1], dtype=torch.float32)
        ctx.p, seed, ctx.salt = draws
        ctx.relu = relu
        grid, tile = _grid(x, ptr)
        _segment_norm_forward[grid](
            x, ptr, seed, out, stats, len(x), x.shape[1], eps, ctx.p, ctx.salt, relu, seed is not None, *tile
        )
        ctx.save_for_backward(x, ptr, stats, seed)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, ptr, stats, seed = ctx.saved_tensors
        grad_x, (grid, tile) = torch.empty_like(x), _grid(x, ptr)
        _segment_norm_backward[grid](
            x, ptr, seed, stats, grad.contiguous(), grad_x,
            len(x), x.shape[1], ctx.p, ctx.salt, ctx.relu, seed is not None, *tile,
        )  # fmt: skip
        return grad_x, None, None, None, None


def _grid(x: Tensor, ptr: Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
    """Graphs and blocks of columns, and the rows and columns of a tile."""
    columns = max(4, min(triton.next_power_of_2(x.shape[1]), _TILE_COLUMNS))
    return (len(ptr) - 1, triton.cdiv(x.shape[1], columns)), (_TILE_ROWS, columns)


@triton.jit
def zero_padding(out, first, rows, column, WIDTH: tl.constexpr, R: tl.constexpr):
    """Rows of no graph, which are the last ones, become 0."""
    for start in range(first + tl.program_id(0) * R, rows, tl.num_programs(0) * R):
        offsets, mask = tile_at(rows, start + tl.arange(0, R), column, WIDTH)
        tl.store(out + offsets, tl.zeros_like(offsets).to(out.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["rows", "salt"])
def _segment_norm_forward(
    x, ptr, seed, out, stats, rows, WIDTH: tl.constexpr, eps, p, salt,
    RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    graph, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < WIDTH
    zero_padding(out, tl.load(ptr + tl.num_programs(0)), rows, column, WIDTH, R)
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    pivot = tl.load(x + first * WIDTH + column, mask=valid & (first + tl.zeros_like(column) < last), other=0).to(
        tl.float32
    )
    sums = tl.zeros((R, C), tl.float32)
    squares = tl.zeros((R, C), tl.float32)
    for start in range(first, last, R):
        offsets, mask = tile_at(last, start + tl.arange(0, R), column, WIDTH)
        value = tl.load(x + offsets, mask=mask, other=0).to(tl.float32)
        value = tl.where(mask, value - pivot[None, :], 0)  # what is left of the first row keeps the digits
        sums += value
        squares += value * value
    count = tl.maximum(last - first, 1).to(tl.float32)
    step = tl.sum(sums, 0) / count
    variance = tl.sum(squares, 0) / count - step * step
    mean, scale = pivot + step, tl.rsqrt(tl.where(variance < 0, 0, variance) + eps)
    offset = graph * WIDTH + column
    tl.store(stats + offset, mean, mask=valid)
    tl.store(stats + tl.num_programs(0) * WIDTH + offset, scale, mask=valid)
    for start in range(first, last, R):
        row = start + tl.arange(0, R)
        offsets, mask = tile_at(last, row, column, WIDTH)
        value = (tl.load(x + offsets, mask=mask, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        if RELU:
            value = tl.where(value < 0, 0, value)  # not a maximum, which would make 0 of NaN
        if DROP:
            value = drop_tile(value, seed, salt, p, row.to(tl.int32), WIDTH, C)
        tl.store(out + offsets, value, mask=mask)


@triton.jit
def _tile_gradient(
    x, seed, grad, offsets, mask, mean, scale, row, p, salt,
    WIDTH: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Normalised values of a tile, and the gradient to them."""
    value = (tl.load(x + offsets, mask=mask, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    grad_out = tl.load(grad + offsets, mask=mask, other=0).to(tl.float32)
    if DROP:
        grad_out = drop_tile(grad_out, seed, salt, p, row.to(tl.int32), WIDTH, C)
    if RELU:
        grad_out = tl.where(value <= 0, 0, grad_out)
    return value, grad_out


@triton.jit(do_not_specialize=["rows", "salt"])
def _segment_norm_backward(
    x, ptr, seed, stats, grad, grad_x, rows, WIDTH: tl.constexpr, p, salt,
    RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    graph, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < WIDTH
    zero_padding(grad_x, tl.load(ptr + tl.num_programs(0)), rows, column, WIDTH, R)
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    offset = graph * WIDTH + column
    mean = tl.load(stats + offset, mask=valid, other=0)
    scale = tl.load(stats + tl.num_programs(0) * WIDTH + offset, mask=valid, other=0)
    grads = tl.zeros((R, C), tl.float32)
    products = tl.zeros((R, C), tl.float32)
    for start in range(first, last, R):
        row = start + tl.arange(0, R)
        offsets, mask = tile_at(last, row, column, WIDTH)
        value, grad_out = _tile_gradient(x, seed, grad, offsets, mask, mean, scale, row, p, salt, WIDTH, RELU, DROP, C)
        grads += grad_out  # 0 where the mask is, as `grad` is
        products += grad_out * value
    count = tl.maximum(last - first, 1).to(tl.float32)
    grad_mean, product_mean = tl.sum(grads, 0) / count, tl.sum(products, 0) / count
    for start in range(first, last, R):
        row = start + tl.arange(0, R)
        offsets, mask = tile_at(last, row, column, WIDTH)
        value, grad_out = _tile_gradient(x, seed, grad, offsets, mask, mean, scale, row, p, salt, WIDTH, RELU, DROP, C)
        grad_out -= grad_mean[None, :] + value * product_mean[None, :]
        tl.store(grad_x + offsets, grad_out * scale[None, :], mask=mask)
