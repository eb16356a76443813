"""Risks by environment, and their variance."""

import torch
from torch import Tensor

from outland.distributed import all_reduce_sum
from outland.graphs import GraphBatch, Schema
from outland.methods.parts.risk import label_losses, mean_over


def environment_means(values: Tensor, known: Tensor, environment: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean of the known values in each environment `[S]`, 0 where it has none; and which have some `[S]`.

    Args:
        values: one a label `[B, T]`.
        known: which of them count `[B, T]`.
        environment: of each graph `[B]`.
        count: S.
    """
    index = environment.clamp(0, count - 1)
    total = all_reduce_sum(values.new_zeros(count).index_add(0, index, torch.where(known, values, 0).sum(1)))
    number = all_reduce_sum(values.new_zeros(count).index_add(0, index, known.sum(1).to(values.dtype)))
    return total / number.clamp(min=1), number > 0


def environment_risks(logits: Tensor, batch: GraphBatch, schema: Schema) -> tuple[Tensor, Tensor]:
    """Mean loss in each environment `[S]`, 0 where the batch has none of its labels; and which it has `[S]`."""
    assert batch.environment is not None
    losses, known = label_losses(logits, batch, schema.task)
    return environment_means(losses, known, batch.environment, schema.environments)


def variance_over(values: Tensor, present: Tensor, unbiased: bool) -> Tensor:
    """Variance over the environments that are present; exactly 0 for fewer than two."""
    squares = torch.where(present, values - mean_over(values, present), 0).square().sum()
    number = present.sum() - (1 if unbiased else 0)
    return squares / number.clamp(min=1)
