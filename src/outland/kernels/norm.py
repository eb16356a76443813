"""Batch norm over the real rows, ReLU and dropout as one: two launches forward and two back, where there were thirty.

The rows are cut into at most 64 blocks. One launch finds each block's moments; the next puts them together, every
program for its own columns, and writes the result.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE_ROWS, _COLUMNS, MOST_BLOCKS = 64, 32, 64


@dataclass(frozen=True)
class Normed:
    """What follows a linear layer.

    Args:
        weight, bias: of batch norm `[d]`.
        mean, variance: its running averages `[d]`, moved in place while training.
        count: batches it has seen, a number in a tensor.
        momentum, eps: of batch norm.
        training: normalise by this batch, and not by the running averages.
        relu: whether one follows.
        drop: chance of each entry to become 0 after that.
        seed: of those draws, a number in a tensor; None where nothing is dropped.
        salt: to be added to it.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    variance: Tensor
    count: Tensor
    momentum: float
    eps: float
    training: bool
    relu: bool
    drop: float = 0.0
    seed: Tensor | None = None
    salt: int = 0


def norm_relu_drop(x: Tensor, mask: Tensor | None, plan: Normed, moments: Tensor | None = None) -> Tensor:
    """`x [N, d]` normalised over the rows that `mask [N]` marks, cut at 0, thinned; rows it does not mark become 0.

    `moments` are those of each block of rows, if they are known already.
    """
    given = x.contiguous(), mask, plan.weight, plan.bias, plan
    out: Tensor = _Trained.apply(*given, moments) if plan.training else _Fixed.apply(*given)
    return out


class _Trained(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, mask: Tensor | None, weight: Tensor, bias: Tensor, plan: Normed, parts: Tensor | None
    ) -> Tensor:
        out, grid, each = torch.empty_like(x), *_grid(x)
        found = x.new_empty(3, x.shape[1], dtype=torch.float32)  # mean, 1/deviation, rows
        if parts is None:
            parts = x.new_empty(3, grid[0], x.shape[1], dtype=torch.float32)
            _moments[grid](x, mask, parts, *x.shape, each, mask is not None, TILE_ROWS, _COLUMNS)
        _normalise[grid](
            x, mask, weight, bias, plan.mean, plan.variance, plan.count, plan.seed, parts, found, out,
            *x.shape, each, grid[0], plan.momentum, plan.eps, plan.drop, plan.salt,
            True, mask is not None, plan.relu, plan.seed is not None, TILE_ROWS, _COLUMNS, _power(grid[0]),
        )  # fmt: skip
        ctx.save_for_backward(x, mask, weight, bias, found, plan.seed)
        ctx.plan = plan
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, weight, bias, found, seed = ctx.saved_tensors
        plan, slope = ctx.plan, slope.contiguous()
        grid, each = _grid(x)
        parts = x.new_empty(2, grid[0], x.shape[1], dtype=torch.float32)
        for_x, for_weight, for_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        flags = (mask is not None, plan.relu, seed is not None, TILE_ROWS, _COLUMNS)
        _slopes[grid](x, mask, slope, weight, bias, seed, found, parts, *x.shape, each, plan.drop, plan.salt, *flags)
        _back[grid](
            x, mask, slope, weight, bias, seed, found, parts, for_x, for_weight, for_bias,
            *x.shape, each, grid[0], plan.drop, plan.salt, *flags, _power(grid[0]),
        )  # fmt: skip
        return for_x, None, for_weight, for_bias, None, None


class _Fixed(torch.autograd.Function):
    """By the running averages, which are constants, as the weights are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor | None, weight: Tensor, bias: Tensor, plan: Normed) -> Tensor:
        out, grid, each = torch.empty_like(x), *_grid(x)
        found = x.new_empty(3, x.shape[1], dtype=torch.float32)
        _normalise[grid](
            x, mask, weight, bias, plan.mean, plan.variance, plan.count, None, found, found, out,
            *x.shape, each, 1, plan.momentum, plan.eps, 0.0, 0,
            False, mask is not None, plan.relu, False, TILE_ROWS, _COLUMNS, 1,
        )  # fmt: skip
        ctx.save_for_backward(x, mask, weight, bias, found)
        ctx.relu = plan.relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, weight, bias, found = ctx.saved_tensors
        for_x, (grid, each) = torch.empty_like(x), _grid(x)
        flags = (mask is not None, ctx.relu, TILE_ROWS, _COLUMNS)
        _back_fixed[grid](x, mask, slope.contiguous(), weight, bias, found, for_x, *x.shape, each, *flags)
        return for_x, None, None, None, None


def _grid(x: Tensor) -> tuple[tuple[int, int], int]:
    """Blocks of rows and columns, and the rows of a block."""
    rows, width = x.shape
    each = triton.cdiv(triton.cdiv(rows, MOST_BLOCKS), TILE_ROWS) * TILE_ROWS
    return (triton.cdiv(rows, each), triton.cdiv(width, _COLUMNS)), each


def _power(number: int) -> int:
    return int(triton.next_power_of_2(number))


@triton.jit
def _tile(rows, width, row, column):
    """Places of a tile's entries, and which of them are there."""
    return row[:, None] * width + column[None, :], (row < rows)[:, None] & (column < width)[None, :]


@triton.jit
def _real(mask, row, rows, MASKED: tl.constexpr):
    """Which rows count."""
    real = row < rows
    if MASKED:
        real = tl.load(mask + row, mask=real, other=0).to(tl.int1)
    return real


@triton.jit(do_not_specialize=["rows", "each"])
def _moments(x, mask, parts, rows, width, each, MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Of each block of rows: how many count, their mean, and their squares about it; tile by tile (Chan)."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    count = tl.zeros((C,), tl.float32)
    mean = tl.zeros((C,), tl.float32)
    squares = tl.zeros((C,), tl.float32)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, there = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & there
        value = tl.load(x + place, mask=real, other=0).to(tl.float32)
        here = tl.sum(real.to(tl.float32), 0)
        middle = tl.sum(value, 0) / tl.maximum(here, 1)
        apart = tl.where(real, value - middle[None, :], 0)
        both = tl.maximum(count + here, 1)
        step = middle - mean
        squares += tl.sum(apart * apart, 0) + step * step * count * here / both
        mean += step * here / both
        count += here
    plane = tl.num_programs(0) * width
    place, there = block * width + column, column < width
    tl.store(parts + place, count, mask=there)
    tl.store(parts + plane + place, mean, mask=there)
    tl.store(parts + 2 * plane + place, squares, mask=there)


@triton.jit(do_not_specialize=["rows", "each", "blocks", "salt"])
def _normalise(
    x, mask, weight, bias, running_mean, running_variance, seen, seed, parts, found, out,
    rows, width, each, blocks, momentum, eps, drop, salt,
    TRAINING: tl.constexpr, MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Put the blocks' moments together, remember them, and write the rows."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    if TRAINING:
        plane = blocks * width
        each_part, known = _tile(blocks, width, tl.arange(0, P), column)
        counts = tl.load(parts + each_part, mask=known, other=0)
        means = tl.load(parts + plane + each_part, mask=known, other=0)
        squares = tl.load(parts + 2 * plane + each_part, mask=known, other=0)
        count = tl.sum(counts, 0)
        mean = tl.sum(counts * means, 0) / tl.maximum(count, 1)
        apart = means - mean[None, :]
        variance = tl.sum(squares + counts * apart * apart, 0) / tl.maximum(count, 1)
        if block == 0:
            unbiased = variance * count / tl.maximum(count - 1, 1)
            old_mean = tl.load(running_mean + column, mask=there, other=0)
            old_variance = tl.load(running_variance + column, mask=there, other=0)
            tl.store(running_mean + column, old_mean + momentum * (mean - old_mean), mask=there)
            tl.store(running_variance + column, old_variance + momentum * (unbiased - old_variance), mask=there)
            tl.store(found + 2 * width + column, tl.maximum(count, 1), mask=there)
            if tl.program_id(1) == 0:
                tl.store(seen, tl.load(seen) + 1)
    else:
        mean = tl.load(running_mean + column, mask=there, other=0)
        variance = tl.load(running_variance + column, mask=there, other=1)
    scale = tl.rsqrt(variance + eps)
    if block == 0:
        tl.store(found + column, mean, mask=there)
        tl.store(found + width + column, scale, mask=there)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        value = tl.load(x + place, mask=real, other=0).to(tl.float32)
        value = (value - mean[None, :]) * scale[None, :] * times[None, :] + plus[None, :]
        if RELU:
            value = tl.where(value < 0, 0, value)  # not a maximum, which would make 0 of NaN
        if DROP:
            value = tl.where(tl.rand(tl.load(seed) + salt, place) >= drop, value / (1 - drop), 0)
        tl.store(out + place, tl.where(real, value, 0), mask=inside)


@triton.jit
def _before_drop(
    slope, place, real, scaled, times, plus, seed, drop, salt, RELU: tl.constexpr, DROP: tl.constexpr
):  # fmt: skip
    """The slope of a tile before dropout and ReLU."""
    change = tl.load(slope + place, mask=real, other=0).to(tl.float32)
    if DROP:
        change = tl.where(tl.rand(tl.load(seed) + salt, place) >= drop, change / (1 - drop), 0)
    if RELU:
        change = tl.where(scaled * times[None, :] + plus[None, :] > 0, change, 0)
    return change


@triton.jit(do_not_specialize=["rows", "each", "salt"])
def _slopes(
    x, mask, slope, weight, bias, seed, found, parts, rows, width, each, drop, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Of each block of rows: the sums of slopes, and of slopes times normalised values."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    mean, scale = tl.load(found + column, mask=there, other=0), tl.load(found + width + column, mask=there, other=0)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    plain = tl.zeros((C,), tl.float32)
    product = tl.zeros((C,), tl.float32)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        scaled = (tl.load(x + place, mask=real, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        change = _before_drop(slope, place, real, scaled, times, plus, seed, drop, salt, RELU, DROP)
        plain += tl.sum(change, 0)
        product += tl.sum(change * scaled, 0)
    place = block * width + column
    tl.store(parts + place, plain, mask=there)
    tl.store(parts + tl.num_programs(0) * width + place, product, mask=there)


@triton.jit(do_not_specialize=["rows", "each", "blocks", "salt"])
def _back(
    x, mask, slope, weight, bias, seed, found, parts, for_x, for_weight, for_bias,
    rows, width, each, blocks, drop, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Put the blocks' sums together and write the slopes of the rows, the weight and the bias."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    each_part, known = _tile(blocks, width, tl.arange(0, P), column)
    plain = tl.sum(tl.load(parts + each_part, mask=known, other=0), 0)
    product = tl.sum(tl.load(parts + blocks * width + each_part, mask=known, other=0), 0)
    if block == 0:
        tl.store(for_bias + column, plain, mask=there)
        tl.store(for_weight + column, product, mask=there)
    mean, scale = tl.load(found + column, mask=there, other=0), tl.load(found + width + column, mask=there, other=0)
    count = tl.load(found + 2 * width + column, mask=there, other=1)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        scaled = (tl.load(x + place, mask=real, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        change = _before_drop(slope, place, real, scaled, times, plus, seed, drop, salt, RELU, DROP)
        change -= (plain[None, :] + scaled * product[None, :]) / count[None, :]
        tl.store(for_x + place, tl.where(real, change * scale[None, :] * times[None, :], 0), mask=inside)


@triton.jit(do_not_specialize=["rows", "each"])
def _back_fixed(
    x, mask, slope, weight, bias, found, for_x, rows, width, each,
    MASKED: tl.constexpr, RELU: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The slopes of the rows where mean and variance are constants."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    mean, scale = tl.load(found + column, mask=there, other=0), tl.load(found + width + column, mask=there, other=0)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        scaled = (tl.load(x + place, mask=real, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        change = _before_drop(slope, place, real, scaled, times, plus, None, 0.0, 0, RELU, False)
        tl.store(for_x + place, tl.where(real, change * scale[None, :] * times[None, :], 0), mask=inside)
