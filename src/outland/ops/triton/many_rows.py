"""Linear layers of many rows in bf16.

cuBLAS multiplies rows whose length is no multiple of 8 numbers by its slowest kernels, and 300 is none. Here a program
takes a block of columns and several tiles of rows, one after another. The moments that a batch norm needs are left to
it: computed here they made the product of 38,400×300×600 on an H200 140 µs, against 82 µs, and 33 µs for them alone.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

DTYPE = torch.bfloat16  # of what is multiplied
TILE = (256, 128, 64)  # rows, columns and depth of a tile of a product
OPTIONS = {"num_warps": 8, "num_stages": 3}
GRAD_TILE = (128, 128, 64)  # outputs, inputs and rows of a tile of the gradient of a weight
GRAD_OPTIONS = {"num_warps": 8, "num_stages": 3}
PROGRAMS = 264  # two for each multiprocessor of an H200
_CAST = 1024  # numbers that a program rounds


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`x @ weight.T + bias` in bf16; no gradient reaches `bias`."""
    out: Tensor = _Linear.apply(x.to(DTYPE).contiguous(), weight, bias)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rounded = round_weight(weight)
        ctx.save_for_backward(x, rounded)
        ctx.dtype, ctx.inputs = weight.dtype, weight.shape[1]
        return product(x, rounded.T, len(weight), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, rounded = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = product(grad, rounded, ctx.inputs) if ctx.needs_input_grad[0] else None
        grad_weight = weight_grad(grad, x).to(ctx.dtype) if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight, None


def round_weight(weight: Tensor) -> Tensor:
    """The weight in bf16, its rows filled up with zeros to a multiple of 8 numbers, 16 bytes."""
    outputs, inputs = weight.shape
    out = weight.new_empty(outputs, triton.cdiv(inputs, 8) * 8, dtype=DTYPE)
    _round_rows[(triton.cdiv(out.numel(), _CAST),)](
        weight.contiguous(), out, out.numel(), *out.shape[1:], inputs, _CAST
    )
    return out


def product(x: Tensor, matrix: Tensor, outputs: int, bias: Tensor | None = None) -> Tensor:
    """`x` times the first columns of a matrix, plus `bias`."""
    (rows, inputs), (tile_rows, tile_columns, _) = x.shape, TILE
    columns = triton.cdiv(outputs, tile_columns)
    each = max(1, triton.cdiv(rows * columns, tile_rows * PROGRAMS))  # tiles of a program
    out = x.new_empty(rows, outputs)
    _linear_rows[triton.cdiv(rows, each * tile_rows), columns](
        x, matrix, bias, out, rows, each, inputs, outputs, *matrix.shape, *matrix.stride(), bias is not None,
        *TILE, **OPTIONS,
    )  # fmt: skip
    return out


def weight_grad(grad: Tensor, x: Tensor) -> Tensor:
    """`grad.T @ x` `[o, i]`: a sum of blocks of rows, always the same ones."""
    (rows, outputs), inputs = grad.shape, x.shape[1]
    grid = triton.cdiv(outputs, GRAD_TILE[0]), triton.cdiv(inputs, GRAD_TILE[1])
    blocks = max(1, min(PROGRAMS // (grid[0] * grid[1]), rows // 512))
    rows_each = triton.cdiv(triton.cdiv(rows, blocks), GRAD_TILE[2]) * GRAD_TILE[2]
    blocks = triton.cdiv(rows, rows_each)
    parts = x.new_empty(blocks, outputs, inputs, dtype=torch.float32)
    _weight_grad_parts[*grid, blocks](grad, x, parts, rows, rows_each, outputs, inputs, *GRAD_TILE, **GRAD_OPTIONS)
    return parts[0] if blocks == 1 else parts.sum(0)


@triton.jit
def _round_rows(values, out, count, PITCH: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr):
    position = tl.program_id(0) * B + tl.arange(0, B)
    row, column = position // PITCH, position % PITCH
    value = tl.load(values + row * WIDTH + column, mask=(position < count) & (column < WIDTH), other=0)
    tl.store(out + position, value.to(out.dtype.element_ty), mask=position < count)


@triton.jit(do_not_specialize=["rows", "each"])
def _linear_rows(
    x, weight, bias, out, rows, each,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH_STRIDE: tl.constexpr, COLUMN_STRIDE: tl.constexpr, BIAS: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Tiles of the product."""
    column = tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < OUTPUTS
    for tile in range(0, each):
        row = (tl.program_id(0) * each + tile) * R + tl.arange(0, R)
        total = _tile_product(
            x, weight, row, column, rows, INPUTS, DEPTH, COLUMNS, DEPTH_STRIDE, COLUMN_STRIDE, R, C, D
        )
        if BIAS:
            total += tl.load(bias + column, mask=in_width, other=0).to(tl.float32)[None, :]
        offset = row[:, None] * OUTPUTS + column[None, :]
        tl.store(out + offset, total.to(out.dtype.element_ty), mask=(row < rows)[:, None] & in_width[None, :])


@triton.jit
def _tile_product(
    x, weight, row, column, rows,
    INPUTS: tl.constexpr, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH_STRIDE: tl.constexpr, COLUMN_STRIDE: tl.constexpr, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A tile of the product of `x` `[rows, INPUTS]` and a matrix of DEPTH × COLUMNS, filled up with zeros."""
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, INPUTS, D):
        depth = start + tl.arange(0, D)
        in_tile = (row < rows)[:, None] & (depth < INPUTS)[None, :]
        left = tl.load(x + row[:, None] * INPUTS + depth[None, :], mask=in_tile, other=0)
        offset = depth[:, None] * DEPTH_STRIDE + column[None, :] * COLUMN_STRIDE
        right = tl.load(weight + offset, mask=(depth < DEPTH)[:, None] & (column < COLUMNS)[None, :], other=0)
        total = tl.dot(left, right, total)
    return total


@triton.jit(do_not_specialize=["rows", "rows_each"])
def _weight_grad_parts(
    grad, x, parts, rows, rows_each,
    OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, R: tl.constexpr, C: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A tile of the gradient of the weight from one block of rows."""
    output, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    in_outputs, in_inputs = output < OUTPUTS, column < INPUTS
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, rows_each, D):
        row = tl.program_id(2) * rows_each + start + tl.arange(0, D)
        valid = row < rows
        left = tl.load(
            grad + row[None, :] * OUTPUTS + output[:, None], mask=valid[None, :] & in_outputs[:, None], other=0
        )
        right = tl.load(x + row[:, None] * INPUTS + column[None, :], mask=valid[:, None] & in_inputs[None, :], other=0)
        total = tl.dot(left, right, total)
    offset = (tl.program_id(2) * OUTPUTS + output)[:, None] * INPUTS + column[None, :]
    tl.store(parts + offset, total, mask=in_outputs[:, None] & in_inputs[None, :])
