"""Group distributionally robust optimisation: the largest weight on the worst environment."""

from typing import Literal

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.environments import environment_risks
from outland.nn import BackboneSettings
from outland.settings import NonNegative, settings


@settings("method")
class GroupDROSettings(MethodSettings):
    """Hyper-parameters of GroupDRO.

    Args:
        step: η, how fast weight moves to the worse environments.
        memory: `persistent` weights grow from batch to batch, as in the paper; `batch` starts anew each time (GOOD).
    """

    step: NonNegative = 0.01
    memory: Literal["persistent", "batch"] = "persistent"


class GroupDRO(ERM[GroupDROSettings]):
    r"""Distributionally Robust Neural Networks for Group Shifts (Sagawa et al., ICLR 2020).

    .. math:: \min_\theta \sum_s q_s R_s, \qquad q_s \leftarrow q_s\,e^{\eta R_s} \ \text{(normalised)}

    The weights carry no gradient and are stored as logarithms, so that they cannot overflow. An environment that is not
    in the batch keeps its weight; in the loss, the weights of those that are there sum to 1.
    """

    name = "groupdro"
    citation = "Sagawa et al., ICLR 2020"
    needs_environments = True
    space = {"step": (1e-3, 1e-2, 1e-1, 1.0), "memory": ("batch", "persistent")}
    log_weights: Tensor

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: GroupDROSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.register_buffer("log_weights", torch.zeros(schema.environments))

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The weighted sum of the environments' risks."""
        risks, present = environment_risks(self.classifier(batch), batch, self.schema)
        return {"weighted_risk": (self.weights(risks.detach(), present) * risks).sum()}

    def weights(self, risks: Tensor, present: Tensor) -> Tensor:
        """Update the weights by these risks, and return those of the environments present `[S]`."""
        log_weights = torch.where(present, self.settings.step * risks, 0)
        if self.settings.memory == "persistent":
            with torch.no_grad():
                log_weights = self.log_weights.add_(log_weights).sub_(self.log_weights.logsumexp(0))
        return torch.where(present, log_weights, -torch.inf).softmax(0).nan_to_num().to(risks.dtype)
