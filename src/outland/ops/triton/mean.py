"""The mean of the numbers that a mask marks: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """See `ops.masked_mean`, for `values` `[B]`."""
    mean: Tensor = _MaskedMean.apply(values.contiguous(), mask.contiguous())
    return mean


class _MaskedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor) -> Tensor:
        out = values.new_empty(())
        _masked_mean_forward[(1,)](values, mask, out, len(values), int(triton.next_power_of_2(len(values))))
        ctx.save_for_backward(mask)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        out = grad.new_empty(len(mask))
        _masked_mean_backward[(1,)](grad, mask, out, len(mask), int(triton.next_power_of_2(len(mask))))
        return out, None


@triton.jit(do_not_specialize=["rows"])
def _masked_mean_forward(values, mask, out, rows, R: tl.constexpr):
    row = tl.arange(0, R)
    marked = tl.load(mask + row, mask=row < rows, other=0).to(tl.int1)
    total = tl.sum(tl.load(values + row, mask=marked, other=0).to(tl.float32), 0)
    tl.store(out, total / tl.maximum(tl.sum(marked.to(tl.float32), 0), 1))


@triton.jit(do_not_specialize=["rows"])
def _masked_mean_backward(grad, mask, out, rows, R: tl.constexpr):
    row = tl.arange(0, R)
    marked = tl.load(mask + row, mask=row < rows, other=0).to(tl.float32)
    share = tl.load(grad).to(tl.float32) / tl.maximum(tl.sum(marked, 0), 1)
    tl.store(out + row, share * marked, mask=row < rows)
