"""The loss of each label, and its mean over those that are known."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from outland.distributed import all_reduce_sum, world_size
from outland.ops.dispatch import op

TaskKind = Literal["multiclass", "binary", "regression"]
_MOST = 2**14  # entries that one program takes


def label_losses(logits: Tensor, y: Tensor, mask: Tensor | None, kind: TaskKind) -> tuple[Tensor, Tensor]:
    """Loss of each label `[B, T]` (one column for classes), and which of them count `[B, T]`.

    Unknown labels and graphs that `mask` `[B]` does not mark have loss 0 and do not count; no gradient comes from them.
    """
    if kind == "multiclass":
        losses = functional.cross_entropy(logits, y, reduction="none")[:, None]
        known = torch.ones_like(losses, dtype=torch.bool)
    else:
        y = y.to(logits.dtype).reshape_as(logits)
        known = ~y.isnan()
        target = torch.where(known, y, 0)
        if kind == "binary":
            losses = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        else:
            losses = functional.mse_loss(logits, target, reduction="none")
    if mask is not None:
        known = known & mask[:, None]
    return losses * known, known


def _supported(logits: Tensor, y: Tensor, mask: Tensor | None, kind: TaskKind) -> bool:
    rows, columns = (1 << (size - 1).bit_length() for size in logits.shape)  # as powers of 2
    class_probabilities = kind == "multiclass" and y.dim() > 1
    return logits.numel() > 0 and rows * columns <= _MOST and not class_probabilities and world_size() == 1


@op("outland.ops.triton.risk:mean_risk", _supported)
def mean_risk(logits: Tensor, y: Tensor, mask: Tensor | None, kind: TaskKind) -> Tensor:
    """Mean loss of `logits` `[B, K]` over the known labels of a batch, in all processes; 0 if there are none.

    Args:
        logits: of classes, or of each target.
        y: classes `[B]`, or targets `[B]` or `[B, K]`, where NaN is unknown.
        mask: which graphs are no padding `[B]`; None where all are.
        kind: of the task.
    """
    losses, known = label_losses(logits, y, mask, kind)
    return all_reduce_sum(losses.sum()) / all_reduce_sum(known.sum()).clamp(min=1)
