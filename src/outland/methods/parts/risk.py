"""The loss of each label, and its mean over those that are known."""

import torch
from torch import Tensor
from torch.nn import functional

from outland import kernels
from outland.distributed import all_reduce_sum, world_size
from outland.graphs import GraphBatch, Task


def label_losses(logits: Tensor, batch: GraphBatch, task: Task) -> tuple[Tensor, Tensor]:
    """Loss of each label `[B, T]` (one column for classes), and which of them count `[B, T]`.

    Unknown labels and padding graphs have loss 0 and do not count; no gradient comes from them.
    """
    if task.kind == "multiclass":
        losses = functional.cross_entropy(logits, batch.y, reduction="none")[:, None]
        known = torch.ones_like(losses, dtype=torch.bool)
    else:
        y = batch.y.to(logits.dtype).reshape_as(logits)
        known = ~y.isnan()
        target = torch.where(known, y, 0)
        if task.kind == "binary":
            losses = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        else:
            losses = functional.mse_loss(logits, target, reduction="none")
    if batch.graph_mask is not None:
        known = known & batch.graph_mask[:, None]
    return losses * known, known


def mean_over(values: Tensor, counted: Tensor) -> Tensor:
    """Mean over the values that count; 0 if none does."""
    return torch.where(counted, values, 0).sum() / counted.sum().clamp(min=1)


def mean_risk(logits: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    """The mean loss over the known labels of a batch, in all processes; 0 if it has none."""
    if kernels.fits(logits) and world_size() == 1:
        from outland.kernels import risk  # needs Triton

        soft = task.kind == "multiclass" and batch.y.dim() > 1
        if risk.takes(logits) and not soft:
            return risk.mean_risk(logits, batch.y, batch.graph_mask, task.kind)
    losses, known = label_losses(logits, batch, task)
    return all_reduce_sum(losses.sum()) / all_reduce_sum(known.sum()).clamp(min=1)
