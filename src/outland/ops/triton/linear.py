"""Linear layers of a few hundred rows with the batch norm after them.

cuBLAS splits a small product into more tiles than there is work for, to finish it sooner. Where many runs share a GPU
that is waste: here a tile is as large as is still fast, and none is summed from parts. While a program has its rows at
hand it also computes the moments that batch norm needs, or normalises the rows by running statistics. Products are in
TF32, so these are for where that is allowed. Tile sizes are the fastest measured on an H200 with ten runs side by side.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.dropout import DropoutDraws
from outland.ops.linear import has_many_rows
from outland.ops.norm import NormState
from outland.ops.triton import many_rows
from outland.ops.triton.norm import batch_norm

TILE_ROWS = 64


def linear_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    state: NormState,
    relu: bool = False,
    dropout: DropoutDraws | None = None,
) -> Tensor:
    """See `ops.linear_norm`; rows that are not marked become 0."""
    if has_many_rows(x):
        return batch_norm(many_rows.linear(x, weight, bias), mask, state, relu, dropout)
    x, weight = x.contiguous(), weight.contiguous()
    if state.training:
        mapped, moments = _LinearMoments.apply(x, weight, bias, mask)
        return batch_norm(mapped, mask, state, relu, dropout, moments)
    return _launch(x, weight, bias, mask, None, state, relu)


class _LinearMoments(torch.autograd.Function):
    """The product plus `bias`, which gets no gradient, and its moments as `batch_norm` takes them `[3, blocks, o]`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight)
        moments = x.new_empty(3, triton.cdiv(len(x), TILE_ROWS), len(weight))
        out = _launch(x, weight, bias, mask, moments, None)
        ctx.mark_non_differentiable(moments)
        return out, moments

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad, grad_weight = grad.contiguous(), None
        if ctx.needs_input_grad[1]:
            grad_weight, (outputs, inputs) = torch.empty_like(weight), weight.shape
            grid = (triton.cdiv(outputs, 32), triton.cdiv(inputs, 64))
            _weight_grad[grid](grad, x, grad_weight, len(x), outputs, inputs, 32, 64, 64, num_stages=3)
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None  # here cuBLAS is as good
        return grad_x, grad_weight, None, None


def _launch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    moments: Tensor | None,
    state: NormState | None,
    relu: bool = False,
) -> Tensor:
    """The product, whose `moments` are written if they are asked for, normalised where there is a `state`."""
    outputs, inputs = weight.shape
    out = x.new_empty(len(x), outputs)
    tile_columns = 128 if outputs > 384 else 64
    norm: tuple[Any, ...] = (None, None, None, None, 0.0)
    if state is not None:
        norm = (state.running_mean, state.running_var, state.weight, state.bias, state.eps)
    _linear_forward[triton.cdiv(len(x), TILE_ROWS), triton.cdiv(outputs, tile_columns)](
        x, weight, bias, mask, out, moments, *norm, len(x), inputs, outputs,
        mask is not None, moments is not None, state is not None, relu,
        TILE_ROWS, tile_columns, 32, num_stages=4,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["rows"])
def _linear_forward(
    x, weight, bias, mask, out, moments, running_mean, running_variance, gain, shift, eps, rows,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, MASKED: tl.constexpr, MOMENTS: tl.constexpr, NORMED: tl.constexpr,
    RELU: tl.constexpr, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A tile of the product. Widths are known when this is compiled, so that several numbers are read at once."""
    row, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    in_rows, in_width = row < rows, column < OUTPUTS
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, INPUTS, D):
        depth = start + tl.arange(0, D)
        left = tl.load(
            x + row[:, None] * INPUTS + depth[None, :], mask=in_rows[:, None] & (depth < INPUTS)[None, :], other=0
        )
        offset = column[None, :] * INPUTS + depth[:, None]
        right = tl.load(weight + offset, mask=(depth < INPUTS)[:, None] & in_width[None, :], other=0)
        total = tl.dot(left, right, total, input_precision="tf32")
    total += tl.load(bias + column, mask=in_width, other=0)[None, :]
    marked = in_rows
    if MASKED:
        marked = tl.load(mask + row, mask=in_rows, other=0).to(tl.int1)
    if MOMENTS:
        count = tl.sum(marked.to(tl.float32), 0)
        mean = tl.sum(tl.where(marked[:, None], total, 0), 0) / tl.maximum(count, 1)
        centred = tl.where(marked[:, None], total - mean[None, :], 0)
        offset, plane = moments + tl.program_id(0) * OUTPUTS + column, tl.num_programs(0) * OUTPUTS
        tl.store(offset, tl.zeros((C,), tl.float32) + count, mask=in_width)
        tl.store(offset + plane, mean, mask=in_width)
        tl.store(offset + 2 * plane, tl.sum(centred * centred, 0), mask=in_width)
    if NORMED:
        scale = tl.rsqrt(tl.load(running_variance + column, mask=in_width, other=1) + eps)
        mean = tl.load(running_mean + column, mask=in_width, other=0)
        total = (total - mean[None, :]) * scale[None, :] * tl.load(gain + column, mask=in_width, other=0)[None, :]
        total += tl.load(shift + column, mask=in_width, other=0)[None, :]
        if RELU:
            total = tl.where(total < 0, 0, total)
        total = tl.where(marked[:, None], total, 0)
    tl.store(out + row[:, None] * OUTPUTS + column[None, :], total, mask=in_rows[:, None] & in_width[None, :])


@triton.jit(do_not_specialize=["rows"])
def _weight_grad(
    grad, x, out, rows,
    OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A tile of the gradient of the weight: over all rows, that of an output times an input."""
    output, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    in_rows, in_width = output < OUTPUTS, column < INPUTS
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, rows, D):
        row = start + tl.arange(0, D)
        valid = row < rows
        left = tl.load(grad + row[None, :] * OUTPUTS + output[:, None], mask=valid[None, :] & in_rows[:, None], other=0)
        right = tl.load(x + row[:, None] * INPUTS + column[None, :], mask=valid[:, None] & in_width[None, :], other=0)
        total = tl.dot(left, right, total, input_precision="tf32")
    tl.store(out + output[:, None] * INPUTS + column[None, :], total, mask=in_rows[:, None] & in_width[None, :])
