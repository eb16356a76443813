"""Invariant risk minimisation: one classifier that is right for every environment at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Task
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.environments import environment_means
from outland.methods.parts.penalty import PenaltySettings
from outland.methods.parts.ranking import ranks
from outland.methods.parts.risk import label_losses, mean_over


@dataclass(frozen=True)
class IRMSettings(PenaltySettings):
    """Hyper-parameters of IRM.

    Args:
        penalty: weight λ of the gradient penalty.
        warm_up: steps during which the weight is at most 1.
        estimator: `square` of each environment's gradient, which is biased by its noise; or the product of the
            gradients of two `halves` of the environment, which is not, and may be negative.
    """

    estimator: Literal["square", "halves"] = "square"


class IRM(ERM):
    r"""Invariant Risk Minimization (Arjovsky et al., 2019), IRMv1.

    .. math:: \min_\theta \hat R + \lambda\,\frac1{|S|}\sum_s
              \Big(\frac{\partial R_s(w \cdot o)}{\partial w}\Big|_{w=1}\Big)^2

    over the environments s in the batch. The gradient has a closed form, so no second backward pass is needed.
    """

    name: ClassVar[str] = "irm"
    citation: ClassVar[str] = "Arjovsky et al., 2019"
    needs_environments: ClassVar[bool] = True
    Settings: ClassVar[type[MethodSettings]] = IRMSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"penalty": (0.1, 1.0, 10.0, 100.0), "warm_up": (0, 500)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss, and how far each environment's is from resting."""
        chosen: IRMSettings = self.settings
        logits = self.classifier(batch)
        weight = progress.scalar(chosen.weight)
        return {"risk": self.risk(logits, batch), "penalty": weight * self.penalty(logits, batch)}

    def penalty(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """The gradient penalty, mean over the environments in the batch."""
        assert batch.environment is not None
        task, count = self.schema.task, self.schema.environments
        slopes = scale_slopes(logits, batch, task)
        _, known = label_losses(logits, batch, task)
        if self.settings.estimator == "square":
            slope, present = environment_means(slopes, known, batch.environment, count)
            return mean_over(slope.square(), present)
        place = torch.arange(batch.num_graphs, device=logits.device).double()
        odd = (ranks(place, batch.environment.clamp(0, count - 1), count) % 2).bool()[:, None]
        first, has_first = environment_means(slopes, known & ~odd, batch.environment, count)
        second, has_second = environment_means(slopes, known & odd, batch.environment, count)
        return mean_over(first * second, has_first & has_second)


def scale_slopes(logits: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    """Slope of each label's loss as its logits are scaled, `[B, T]`: how much surer it would like to be."""
    if task.kind == "multiclass":
        target = (batch.y[:, None] == torch.arange(task.outputs, device=logits.device)).to(logits.dtype)
        return ((logits.softmax(1) - target) * logits).sum(1, keepdim=True)
    y = torch.nan_to_num(batch.y.to(logits.dtype).reshape_as(logits))
    if task.kind == "binary":
        return (logits.sigmoid() - y) * logits
    return 2 * (logits - y) * logits
