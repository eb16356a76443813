"""The mean of what counts in a row of numbers: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

MOST = 2**14  # numbers that one program takes


def takes(values: Tensor) -> bool:
    """Whether the kernel takes so many numbers."""
    return 0 < len(values) <= MOST


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the `values` `[B]` that `mask` `[B]` marks; 0 if it marks none."""
    mean: Tensor = _MaskedMean.apply(values.contiguous(), mask.contiguous())
    return mean


class _MaskedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor) -> Tensor:
        out = values.new_empty(())
        _mean[(1,)](values, mask, out, len(values), int(triton.next_power_of_2(len(values))))
        ctx.save_for_backward(mask)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        out = slope.new_empty(len(mask))
        _mean_back[(1,)](slope, mask, out, len(mask), int(triton.next_power_of_2(len(mask))))
        return out, None


@triton.jit(do_not_specialize=["rows"])
def _mean(values, mask, out, rows, R: tl.constexpr):
    place = tl.arange(0, R)
    real = tl.load(mask + place, mask=place < rows, other=0).to(tl.int1)
    total = tl.sum(tl.load(values + place, mask=real, other=0).to(tl.float32), 0)
    tl.store(out, total / tl.maximum(tl.sum(real.to(tl.float32), 0), 1))


@triton.jit(do_not_specialize=["rows"])
def _mean_back(slope, mask, out, rows, R: tl.constexpr):
    place = tl.arange(0, R)
    real = tl.load(mask + place, mask=place < rows, other=0).to(tl.float32)
    each = tl.load(slope).to(tl.float32) / tl.maximum(tl.sum(real, 0), 1)
    tl.store(out + place, each * real, mask=place < rows)
