"""Rows multiplied by a weight each: one launch back for both gradients."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_TILE_ROWS = 4


def scale_rows(x: Tensor, weight: Tensor) -> Tensor:
    """See `ops.scale_rows`."""
    out: Tensor = _ScaleRows.apply(x.contiguous(), weight)
    return out


class _ScaleRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight[:, None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        grad_x = torch.empty_like(x) if needs_x else None
        grad_weight = torch.empty_like(weight) if needs_weight else None
        if len(x):
            _scale_rows_backward[(triton.cdiv(len(x), _TILE_ROWS),)](
                x, weight.contiguous(), grad.contiguous(), grad_x, grad_weight, *x.shape,
                needs_x, needs_weight, _TILE_ROWS, min(512, int(triton.next_power_of_2(x.shape[1]))),
            )  # fmt: skip
        return grad_x, grad_weight


@triton.jit(do_not_specialize=["rows"])
def _scale_rows_backward(
    x, weight, grad, grad_x, grad_weight, rows, width,
    GRAD_X: tl.constexpr, GRAD_WEIGHT: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * R + tl.arange(0, R)
    in_rows = row < rows
    scale = tl.load(weight + row, mask=in_rows, other=0).to(tl.float32)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, width, C):
        column = start + tl.arange(0, C)
        offset, mask = row.to(tl.int64)[:, None] * width + column[None, :], in_rows[:, None] & (column < width)[None, :]
        grad_out = tl.load(grad + offset, mask=mask, other=0).to(tl.float32)
        if GRAD_X:
            tl.store(grad_x + offset, grad_out * scale[:, None], mask=mask)
        if GRAD_WEIGHT:
            total += tl.sum(grad_out * tl.load(x + offset, mask=mask, other=0).to(tl.float32), 1)
    if GRAD_WEIGHT:
        tl.store(grad_weight + row, total, mask=in_rows)
