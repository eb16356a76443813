"""The mean loss over the known labels of a batch: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


def mean_risk(logits: Tensor, y: Tensor, mask: Tensor | None, kind: str) -> Tensor:
    """See `ops.mean_risk`."""
    risk: Tensor = _MeanRisk.apply(logits.contiguous(), y.contiguous(), mask, kind)
    return risk


class _MeanRisk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, mask: Tensor | None, kind: str) -> Tensor:
        # The gradients are at hand once the loss is, so both are written; `backward` only scales them.
        out, grads = logits.new_empty((), dtype=torch.float32), torch.empty_like(logits, dtype=torch.float32)
        rows, width = logits.shape
        _mean_risk_forward[(1,)](
            logits, y, mask, out, grads, rows, width,
            kind, mask is not None, int(triton.next_power_of_2(rows)), int(triton.next_power_of_2(width)),
        )  # fmt: skip
        ctx.save_for_backward(grads)
        ctx.dtype = logits.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (grads,) = ctx.saved_tensors
        return (grads * grad).to(ctx.dtype), None, None, None


@triton.jit(do_not_specialize=["rows"])
def _mean_risk_forward(
    logits, y, mask, out, grads, rows, width,
    KIND: tl.constexpr, MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row, column = tl.arange(0, R), tl.arange(0, C)
    in_rows, in_width = row < rows, column < width
    valid = in_rows[:, None] & in_width[None, :]
    offset = row[:, None] * width + column[None, :]
    value = tl.load(logits + offset, mask=valid, other=0).to(tl.float32)
    real = in_rows
    if MASKED:
        real = tl.load(mask + row, mask=in_rows, other=0).to(tl.int1) & in_rows
    if KIND == "multiclass":
        label = tl.load(y + row, mask=in_rows, other=0)
        low = tl.where(valid, value, -float("inf"))
        top = tl.max(tl.where(valid, value, -1e38), 1)
        exponential = tl.where(valid, tl.exp(low - top[:, None]), 0)
        total = tl.maximum(tl.sum(exponential, 1), 1e-38)
        is_label = (column[None, :] == label[:, None]) & valid
        loss = tl.log(total) + top - tl.sum(tl.where(is_label, value, 0), 1)
        count = tl.maximum(tl.sum(real.to(tl.float32), 0), 1)
        grad = tl.where(real[:, None], exponential / total[:, None] - is_label.to(tl.float32), 0)
        total_loss = tl.sum(tl.where(real, loss, 0), 0)
    else:
        target = tl.load(y + offset, mask=valid, other=0).to(tl.float32)
        known = valid & real[:, None] & (target == target)
        target = tl.where(known, target, 0)
        if KIND == "binary":
            losses = tl.where(value < 0, 0, value) - value * target + tl.log(1 + tl.exp(-tl.abs(value)))
            grad = tl.sigmoid(value) - target
        else:
            losses = (value - target) * (value - target)
            grad = 2 * (value - target)
        grad = tl.where(known, grad, 0)
        count = tl.maximum(tl.sum(tl.sum(known.to(tl.float32), 1), 0), 1)
        total_loss = tl.sum(tl.sum(tl.where(known, losses, 0), 1), 0)
    tl.store(out, total_loss / count)
    tl.store(grads + offset, grad / count, mask=valid)
