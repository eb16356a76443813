"""Linear layers of a few hundred rows with the batch norm after them.

cuBLAS cuts a small product into more pieces than there is work for, to be done with it sooner. Where many runs share a
GPU that is waste: here a piece is as large as is still fast, and none is put together from parts. While a program has
its rows at hand it also finds the moments that batch norm needs, or normalises the rows where running averages do.
Products are in TF32, so these are for where that is allowed. Sizes of pieces are the fastest found on an H200 with ten
runs side by side.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.kernels.norm import MOST_BLOCKS, TILE_ROWS, Normed

MOST_ROWS, LEAST_WIDTH = 2048, 16
assert MOST_ROWS <= TILE_ROWS * MOST_BLOCKS, "batch norm must have the blocks of rows that moments are found of"


def linear_moments(x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """`x [N, i]` times `weight [o, i]` transposed, plus `bias [o]`, which gets no slope; and its moments.

    They are those of the rows that `mask [N]` marks, as `norm_relu_drop` takes them: how many, their mean, and their
    squares about it, of each block of rows `[3, blocks, o]`.
    """
    out, moments = _LinearMoments.apply(x.contiguous(), weight.contiguous(), bias, mask)
    return out, moments


def linear_normed(x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None, plan: Normed) -> Tensor:
    """The linear layer, normalised by running averages and cut at 0 if asked; rows not marked become 0. No slopes."""
    out = x.new_empty(len(x), len(weight))
    _launch(x.contiguous(), weight.contiguous(), bias, mask, out, None, plan)
    return out


class _LinearMoments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight)
        out = x.new_empty(len(x), len(weight))
        moments = x.new_empty(3, triton.cdiv(len(x), TILE_ROWS), len(weight))
        _launch(x, weight, bias, mask, out, moments, None)
        ctx.mark_non_differentiable(moments)
        return out, moments

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        slope, for_weight = slope.contiguous(), None
        if ctx.needs_input_grad[1]:
            for_weight, (outputs, inputs) = torch.empty_like(weight), weight.shape
            grid = (triton.cdiv(outputs, 32), triton.cdiv(inputs, 64))
            _weight_slope[grid](slope, x, for_weight, len(x), outputs, inputs, 32, 64, 64, num_stages=3)
        for_x = slope @ weight if ctx.needs_input_grad[0] else None  # here cuBLAS is as good
        return for_x, for_weight, None, None


def _launch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    out: Tensor,
    moments: Tensor | None,
    plan: Normed | None,
) -> None:
    outputs, inputs = weight.shape
    wide = 128 if outputs > 384 else 64
    given: tuple[Any, ...] = (None, None, None, None, 0.0)
    if plan is not None:
        given = (plan.mean, plan.variance, plan.weight, plan.bias, plan.eps)
    _linear[triton.cdiv(len(x), TILE_ROWS), triton.cdiv(outputs, wide)](
        x, weight, bias, mask, out, moments, *given, len(x), inputs, outputs,
        mask is not None, moments is not None, plan is not None, plan is not None and plan.relu,
        TILE_ROWS, wide, 32, num_stages=4,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def _linear(
    x, weight, bias, mask, out, moments, running_mean, running_variance, times, plus, eps, rows,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, MASKED: tl.constexpr, MOMENTS: tl.constexpr, NORMED: tl.constexpr,
    RELU: tl.constexpr, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A tile of the product. Widths are known when this is compiled, so that several numbers are read at once."""
    row, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    inside, there = row < rows, column < OUTPUTS
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, INPUTS, D):
        deep = start + tl.arange(0, D)
        left = tl.load(
            x + row[:, None] * INPUTS + deep[None, :], mask=inside[:, None] & (deep < INPUTS)[None, :], other=0
        )
        place = column[None, :] * INPUTS + deep[:, None]
        right = tl.load(weight + place, mask=(deep < INPUTS)[:, None] & there[None, :], other=0)
        total = tl.dot(left, right, total, input_precision="tf32")
    total += tl.load(bias + column, mask=there, other=0)[None, :]
    real = inside
    if MASKED:
        real = tl.load(mask + row, mask=inside, other=0).to(tl.int1)
    if MOMENTS:
        count = tl.sum(real.to(tl.float32), 0)
        mean = tl.sum(tl.where(real[:, None], total, 0), 0) / tl.maximum(count, 1)
        apart = tl.where(real[:, None], total - mean[None, :], 0)
        place, plane = moments + tl.program_id(0) * OUTPUTS + column, tl.num_programs(0) * OUTPUTS
        tl.store(place, tl.zeros((C,), tl.float32) + count, mask=there)
        tl.store(place + plane, mean, mask=there)
        tl.store(place + 2 * plane, tl.sum(apart * apart, 0), mask=there)
    if NORMED:
        scale = tl.rsqrt(tl.load(running_variance + column, mask=there, other=1) + eps)
        mean = tl.load(running_mean + column, mask=there, other=0)
        total = (total - mean[None, :]) * scale[None, :] * tl.load(times + column, mask=there, other=0)[None, :]
        total += tl.load(plus + column, mask=there, other=0)[None, :]
        if RELU:
            total = tl.where(total < 0, 0, total)
        total = tl.where(real[:, None], total, 0)
    tl.store(out + row[:, None] * OUTPUTS + column[None, :], total, mask=inside[:, None] & there[None, :])


@triton.jit(do_not_specialize=["rows"])
def _weight_slope(
    slope, x, out, rows,
    OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A tile of the slope of the weight: over all rows, that of an output times an input."""
    output, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    inside, there = output < OUTPUTS, column < INPUTS
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, rows, D):
        row = start + tl.arange(0, D)
        real = row < rows
        left = tl.load(slope + row[None, :] * OUTPUTS + output[:, None], mask=real[None, :] & inside[:, None], other=0)
        right = tl.load(x + row[:, None] * INPUTS + column[None, :], mask=real[:, None] & there[None, :], other=0)
        total = tl.dot(left, right, total, input_precision="tf32")
    tl.store(out + output[:, None] * INPUTS + column[None, :], total, mask=inside[:, None] & there[None, :])
