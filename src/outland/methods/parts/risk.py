"""The loss of each label, and its mean over those that are known."""

import torch
from torch import Tensor

from outland import ops
from outland.distributed import all_reduce_sum
from outland.graphs import GraphBatch, Task


def label_losses(logits: Tensor, batch: GraphBatch, task: Task) -> tuple[Tensor, Tensor]:
    """Loss of each label `[B, T]` (one column for classes), and which of them count `[B, T]`.

    Unknown labels and padding graphs have loss 0 and do not count; no gradient comes from them.
    """
    return ops.label_losses(logits, batch.y, batch.graph_mask, task.kind)


def mean_over(values: Tensor, counted: Tensor) -> Tensor:
    """Mean over the values that count; 0 if none does."""
    return torch.where(counted, values, 0).sum() / counted.sum().clamp(min=1)


def partial_risk(logits: Tensor, batch: GraphBatch, task: Task, counted: Tensor) -> Tensor:
    """The losses of the graphs that count `[B]`, over the number of known labels of all graphs, in all processes."""
    losses, known = label_losses(logits, batch, task)
    total = all_reduce_sum(torch.where(counted[:, None], losses, 0).sum())
    return total / all_reduce_sum(known.sum()).clamp(min=1)


def mean_risk(logits: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    """The mean loss over the known labels of a batch, in all processes; 0 if it has none."""
    return ops.mean_risk(logits, batch.y, batch.graph_mask, task.kind)
