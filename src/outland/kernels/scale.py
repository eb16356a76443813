"""Rows times a number each: one launch back for both slopes."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_TALL = 4


def scale_rows(x: Tensor, weight: Tensor) -> Tensor:
    """`x` `[N, d]` with each row multiplied by its `weight` `[N]`."""
    out: Tensor = _ScaleRows.apply(x.contiguous(), weight)
    return out


class _ScaleRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight[:, None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        for_x = torch.empty_like(x) if needs_x else None
        for_weight = torch.empty_like(weight) if needs_weight else None
        if len(x):
            _scale_back[(triton.cdiv(len(x), _TALL),)](
                x, weight.contiguous(), slope.contiguous(), for_x, for_weight, *x.shape,
                needs_x, needs_weight, _TALL, min(512, int(triton.next_power_of_2(x.shape[1]))),
            )  # fmt: skip
        return for_x, for_weight


@triton.jit(do_not_specialize=["rows"])
def _scale_back(
    x, weight, slope, for_x, for_weight, rows, width,
    FOR_X: tl.constexpr, FOR_WEIGHT: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * R + tl.arange(0, R)
    here = row < rows
    times = tl.load(weight + row, mask=here, other=0).to(tl.float32)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, width, C):
        column = start + tl.arange(0, C)
        place, inside = row.to(tl.int64)[:, None] * width + column[None, :], here[:, None] & (column < width)[None, :]
        change = tl.load(slope + place, mask=inside, other=0).to(tl.float32)
        if FOR_X:
            tl.store(for_x + place, change * times[:, None], mask=inside)
        if FOR_WEIGHT:
            total += tl.sum(change * tl.load(x + place, mask=inside, other=0).to(tl.float32), 1)
    if FOR_WEIGHT:
        tl.store(for_weight + row, total, mask=here)
