"""Risks by environment, their variance, and the weight of a penalty on them."""

import torch
from torch import Tensor

from outland.distributed import all_reduce_sum
from outland.graphs import GraphBatch, Schema
from outland.methods.base import MethodSettings, Progress
from outland.methods.parts.risk import label_losses, mean_over
from outland.settings import Count, NonNegative, settings


@settings("method")
class PenaltySettings(MethodSettings):
    """Hyper-parameters of a penalty.

    Args:
        penalty: its weight.
        warm_up: steps during which the weight is at most 1.
    """

    penalty: NonNegative = 1.0
    warm_up: Count = 0

    def weight(self, progress: Progress) -> float:
        """The penalty's weight in this step; the optimizer's state is kept when it changes."""
        return min(1.0, self.penalty) if progress.step < self.warm_up else self.penalty


def environment_means(values: Tensor, known: Tensor, environment: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean of the known values in each of S environments `[S]`, 0 where it has none; and which have some `[S]`.

    Values and which are known are `[B, T]`, the environment of each graph `[B]`.
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
