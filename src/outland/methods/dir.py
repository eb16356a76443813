"""Discovering Invariant Rationales: low risk in every environment that other graphs' complements make."""

import math
from typing import Literal

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Schema, Task
from outland.methods.base import Progress, Terms
from outland.methods.parts.environments import variance_over
from outland.methods.parts.risk import label_losses
from outland.methods.parts.subgraphs import SubgraphMethod, SubgraphSettings
from outland.nn import BackboneSettings, Head, frozen_running_stats
from outland.settings import NonNegative, settings


@settings("method")
class DIRSettings(SubgraphSettings):
    """Hyper-parameters of DIR.

    Args:
        alpha: α, weight of the interventions, before it grows; of a `ramp`, what it grows to.
        schedule: `power`, α' = α·epoch^p; or `ramp`, α' = α·(2/(1 + e^(-10t)) - 1), t the share of training done, at
            the middle of the epoch.
        power: p; 0 keeps the weight at α.
        cap: most that the weight of the mean risk may grow to; None sets no limit.
        objective: `paper`, the mean risk over interventions and α' times its variance; or `code`, which has the
            risk of the rationale alone, and α' times both mean and variance.
        mean: of the `risk` over interventions; or that divided by the number of graphs once more (`graph`), as in GOOD.
        variance: of the `risk`; or of the batch's summed risk (`batch`), B² times as large, as in the public code.
    """

    alpha: NonNegative = 1e-2
    schedule: Literal["power", "ramp"] = "power"
    power: NonNegative = 1.6
    cap: NonNegative | None = None
    objective: Literal["code", "paper"] = "code"
    mean: Literal["risk", "graph"] = "risk"
    variance: Literal["risk", "batch"] = "risk"


class DIR(SubgraphMethod[DIRSettings]):
    r"""Discovering Invariant Rationales for Graph Neural Networks (Wu et al., ICLR 2022).

    Edge scores s split each graph into a rationale C, the best share r of its edges, and a complement S. Every
    rationale is paired with every complement of the batch: complement j gates the logits of all rationales.

    .. math::
        & R_j = \mathbb{E}_i\,\ell\big(f_c(h_{C_i}) \odot \sigma(f_s(h_{S_j})), y_i\big) \\
        & \min\; \mathbb{E}_i\,\ell(f_c(h_{C_i}), y_i) + \alpha'\,\mathbb{E}_j R_j + \alpha'\,\mathrm{Var}_j R_j,
          \quad \min_{f_s}\; \mathbb{E}_i\,\ell(f_s(h_{S_i}), y_i)

    The complement's head f_s is trained by its own loss and by no other, and that loss trains nothing else: its input
    and the gates are detached, so one phase serves both. Predictions rest on f_c(h_C). As everywhere here a batch is a
    step, where the authors' scripts for Motif and digits add up gradients over an epoch; their ratio is .25 on Motif,
    the default, and .8 on digits and molecules (`dir:molecules`), with α 10⁻⁴.

    In GOOD (`dir:good`) the weight is a ramp from 0 to 1, whatever α its configuration has: its training loop writes
    that ramp, meant for another method, over α' before every batch. It divides every :math:`R_j` by the number of
    labels once more, and multiplies by B before the variance. Where a graph has one label, the variance is that of
    :math:`R_j` itself, and the mean is :math:`\mathbb{E}_j R_j / B`.
    """

    name = "dir"
    family = "graph"
    citation = "Wu et al., ICLR 2022"
    presets = {
        "molecules": lambda: DIRSettings(ratio=0.8, alpha=1e-4),
        "good": lambda: DIRSettings(alpha=1.0, schedule="ramp", mean="graph"),
    }
    space = {"ratio": (0.25, 0.5, 0.8), "alpha": (1e-4, 1e-2)}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: DIRSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.environment_head = Head(backbone, schema.task.outputs)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The rationale's risk, alone and under interventions, and the complement's."""
        parts = self.parts(batch)
        logits = self.classifier.head(self.embed_rationale(batch, parts), batch)
        with torch.no_grad(), frozen_running_stats(self.classifier):
            environment = self.embed_part(batch, parts.complement, parts)
        environment_logits = self.environment_head(environment, batch)
        risks = intervened_risks(logits, environment_logits.detach(), batch, self.schema.task)
        mean, variance = self.mean(risks, batch), self.variance(risks, batch)
        complement, weight = self.risk(environment_logits, batch), progress.scalar(self.weight)
        if self.settings.objective == "paper":
            return {"interventions": mean, "variance": weight * variance, "complement": complement}
        cap = math.inf if self.settings.cap is None else self.settings.cap
        return {
            "rationale": self.risk(logits, batch),
            "interventions": progress.scalar(lambda now: min(self.weight(now), cap)) * mean,
            "variance": weight * variance,
            "complement": complement,
        }

    def weight(self, progress: Progress) -> float:
        """α' in this epoch: as a power, 0 in the first, unless p is 0; as a ramp, that of the epoch's middle."""
        if self.settings.schedule == "ramp":
            return self.settings.alpha * math.tanh(5 * (progress.epoch + 0.5) / progress.epochs)
        return float(self.settings.alpha * progress.epoch**self.settings.power)

    def mean(self, risks: Tensor, batch: GraphBatch) -> Tensor:
        """Mean of the risk over interventions, or of the risk a graph of the batch."""
        mean = batch.mean_graphs(risks)
        return mean / batch.real_graphs.sum().clamp(min=1) if self.settings.mean == "graph" else mean

    def variance(self, risks: Tensor, batch: GraphBatch) -> Tensor:
        """Variance of the risk over interventions; 0 if there is only one."""
        scale = batch.real_graphs.sum() if self.settings.variance == "batch" else 1
        return variance_over(scale * risks, batch.real_graphs, unbiased=True)


def intervened_risks(logits: Tensor, environment_logits: Tensor, batch: GraphBatch, task: Task) -> Tensor:
    """Risk of all rationales under each complement's gate, `[B]`, from logits `[B, K]` of both."""
    count = len(logits)
    gated = logits * environment_logits.sigmoid()[:, None]  # [complement, rationale, K]
    labels = batch.y.expand(count, *batch.y.shape).flatten(0, 1)
    real = None if batch.graph_mask is None else batch.graph_mask.repeat(count)
    losses, known = label_losses(gated.flatten(0, 1), batch.replace(y=labels, graph_mask=real), task)
    return losses.reshape(count, -1).sum(1) / known.reshape(count, -1).sum(1).clamp(min=1)
