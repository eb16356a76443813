"""The mean loss over the known labels of a batch: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

MOST = 2**14  # entries that one program takes


def takes(logits: Tensor) -> bool:
    """Whether the kernel takes logits of this size."""
    rows, width = (int(triton.next_power_of_2(max(size, 1))) for size in logits.shape)
    return logits.numel() > 0 and rows * width <= MOST


def mean_risk(logits: Tensor, y: Tensor, mask: Tensor | None, kind: str) -> Tensor:
    """Mean loss of `logits` `[B, K]` over the labels that are known and whose graph `mask` `[B]` marks.

    Args:
        logits: of classes, or of each target.
        y: classes `[B]`, or targets `[B]` or `[B, K]`, where NaN is unknown.
        mask: which graphs are no padding; None where all are.
        kind: `multiclass`, `binary` or `regression`.
    """
    risk: Tensor = _MeanRisk.apply(logits.contiguous(), y.contiguous(), mask, kind)
    return risk


class _MeanRisk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, mask: Tensor | None, kind: str) -> Tensor:
        # The slopes are at hand once the loss is, so both are written; the way back only scales them.
        out, slopes = logits.new_empty((), dtype=torch.float32), torch.empty_like(logits, dtype=torch.float32)
        rows, width = logits.shape
        _risk[(1,)](
            logits, y, mask, out, slopes, rows, width,
            kind, mask is not None, int(triton.next_power_of_2(rows)), int(triton.next_power_of_2(width)),
        )  # fmt: skip
        ctx.save_for_backward(slopes)
        ctx.dtype = logits.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        (slopes,) = ctx.saved_tensors
        return (slopes * slope).to(ctx.dtype), None, None, None


@triton.jit(do_not_specialize=["rows"])
def _risk(
    logits, y, mask, out, slopes, rows, width,
    KIND: tl.constexpr, MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row, column = tl.arange(0, R), tl.arange(0, C)
    inside, there = row < rows, column < width
    both = inside[:, None] & there[None, :]
    place = row[:, None] * width + column[None, :]
    value = tl.load(logits + place, mask=both, other=0).to(tl.float32)
    real = inside
    if MASKED:
        real = tl.load(mask + row, mask=inside, other=0).to(tl.int1) & inside
    if KIND == "multiclass":
        wanted = tl.load(y + row, mask=inside, other=0)
        low = tl.where(both, value, -float("inf"))
        top = tl.max(tl.where(both, value, -1e38), 1)
        power = tl.where(both, tl.exp(low - top[:, None]), 0)
        total = tl.maximum(tl.sum(power, 1), 1e-38)
        hit = (column[None, :] == wanted[:, None]) & both
        loss = tl.log(total) + top - tl.sum(tl.where(hit, value, 0), 1)
        count = tl.maximum(tl.sum(real.to(tl.float32), 0), 1)
        slope = tl.where(real[:, None], power / total[:, None] - hit.to(tl.float32), 0)
        found = tl.sum(tl.where(real, loss, 0), 0)
    else:
        target = tl.load(y + place, mask=both, other=0).to(tl.float32)
        known = both & real[:, None] & (target == target)
        target = tl.where(known, target, 0)
        if KIND == "binary":
            losses = tl.where(value < 0, 0, value) - value * target + tl.log(1 + tl.exp(-tl.abs(value)))
            slope = tl.sigmoid(value) - target
        else:
            losses = (value - target) * (value - target)
            slope = 2 * (value - target)
        slope = tl.where(known, slope, 0)
        count = tl.maximum(tl.sum(tl.sum(known.to(tl.float32), 1), 0), 1)
        found = tl.sum(tl.sum(tl.where(known, losses, 0), 1), 0)
    tl.store(out, found / count)
    tl.store(slopes + place, slope / count, mask=both)
