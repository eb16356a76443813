"""Invariant risk minimisation: one classifier that is optimal in every environment at once."""

from typing import Literal

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Task
from outland.methods.base import Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.environments import PenaltySettings, environment_means
from outland.methods.parts.ranking import rank_within_group
from outland.methods.parts.risk import label_losses, mean_over
from outland.settings import settings


@settings("method")
class IRMSettings(PenaltySettings):
    """Hyper-parameters of IRM.

    Args:
        penalty: weight λ of the gradient penalty.
        estimator: `square` of each environment's gradient, which is biased by its noise; or the product of the
            gradients of two `halves` of the environment, which is not, and may be negative.
    """

    estimator: Literal["square", "halves"] = "square"


class IRM(ERM[IRMSettings]):
    r"""Invariant Risk Minimization (Arjovsky et al., 2019), IRMv1.

    .. math:: \min_\theta \hat R + \lambda\,\frac1{|S|}\sum_s
              \Big(\frac{\partial R_s(w \cdot o)}{\partial w}\Big|_{w=1}\Big)^2

    over the environments s in the batch. The gradient has a closed form, so no second backward pass is needed.
    """

    name = "irm"
    citation = "Arjovsky et al., 2019"
    needs_environments = True
    space = {"penalty": (0.1, 1.0, 10.0, 100.0), "warm_up": (0, 500)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss, and the weighted gradient penalty."""
        logits = self.classifier(batch)
        weight = progress.scalar(self.settings.weight)
        return {"risk": self.risk(logits, batch), "penalty": weight * self.penalty(logits, batch)}

    def penalty(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """The gradient penalty, mean over the environments in the batch."""
        assert batch.environment is not None
        task, count = self.schema.task, self.schema.environments
        grads = scale_grads(logits, batch, task)
        _, known = label_losses(logits, batch, task)
        if self.settings.estimator == "square":
            grad, present = environment_means(grads, known, batch.environment, count)
            return mean_over(grad.square(), present)
        index = torch.arange(batch.num_graphs, device=logits.device).double()
        odd = (rank_within_group(index, batch.environment.clamp(0, count - 1), count) % 2).bool()[:, None]
        first, has_first = environment_means(grads, known & ~odd, batch.environment, count)
        second, has_second = environment_means(grads, known & odd, batch.environment, count)
        return mean_over(first * second, has_first & has_second)


def scale_grads(logits: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    """Gradient of each label's loss by w, a factor of its logits, at w = 1 `[B, T]`."""
    if task.kind == "multiclass":
        target = (batch.y[:, None] == torch.arange(task.outputs, device=logits.device)).to(logits.dtype)
        return ((logits.softmax(1) - target) * logits).sum(1, keepdim=True)
    y = torch.nan_to_num(batch.y.to(logits.dtype).reshape_as(logits))
    if task.kind == "binary":
        return (logits.sigmoid() - y) * logits
    return 2 * (logits - y) * logits
