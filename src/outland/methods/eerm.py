"""EERM: editors look for virtual environments that disagree, the classifier for what they agree on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import MethodSettings, Phase, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.edge_scorer import EdgeScorer
from outland.methods.parts.environments import variance_over
from outland.methods.parts.ranking import both_directions
from outland.methods.parts.risk import label_losses, mean_over
from outland.nn import BackboneSettings, Mask
from outland.settings import check_ranges


@dataclass(frozen=True)
class EERMSettings(MethodSettings):
    """Hyper-parameters of EERM.

    Args:
        lr_editors: learning rate of the editors.
        editors: K, virtual environments of each graph.
        beta: β, weight of the mean risk against the variance.
        strength: s, the largest chance with which an editor may drop an edge; 0 leaves every graph as it is.
        editor_layers: depth of the editors' own encoder.
    """

    lr_editors: float = 1e-3
    editors: int = 3
    beta: float = 1.0
    strength: float = 0.5
    editor_layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", lr_editors=(0, None), editors=(1, None), beta=(0, None))
        check_ranges(self, "method", strength=(0, 1), editor_layers=(1, None))


class EERM(ERM):
    r"""Handling Distribution Shifts on Graphs: An Invariance Perspective (Wu et al., ICLR 2022), for whole graphs.

    .. math::
        \min_\theta\; & \mathrm{Var}_k(R_k) + \beta\,\frac1K\sum_k R_k, \quad
            R_k = \mathbb{E}\,[\ell(f(g_k), y)], \quad g_k \sim p_k(\cdot \mid g) \\
        \max_\phi\; & \mathbb{E}\Big[(r - \bar r) \sum_k \log p_k(g_k \mid g)\Big], \quad
            r = \mathrm{Var}_k\,\ell(f(g_k), y)

    The paper edits one large graph, with a table of logits over all pairs of nodes for each editor. Here the editors
    are one network for all graphs: editor k drops an undirected edge with chance :math:`s\,\sigma(a_k)`, independently,
    so that the probability in the score function is the one that is drawn from. They add no edges, take one step for
    each of the classifier's, and are not started afresh each epoch. The reward is each graph's own variance, its
    baseline the batch's mean. Variances are unbiased; of one editor, 0. Whole graphs at inference.
    """

    name: ClassVar[str] = "eerm"
    family: ClassVar[str] = "graph"
    citation: ClassVar[str] = "Wu et al., ICLR 2022"
    Settings: ClassVar[type[MethodSettings]] = EERMSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"beta": (0.5, 1.0, 3.0), "lr_editors": (1e-4, 1e-3, 1e-2)}
    training_only: ClassVar[tuple[str, ...]] = ("editor",)

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: EERMSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        chosen: EERMSettings = self.settings
        encoder = replace(backbone, layers=chosen.editor_layers)
        self.editor = EdgeScorer(encoder, schema, backbone.width, chosen.editors)

    def phases(self) -> list[Phase]:
        """The classifier comes first, then the editors against what it has become."""
        return [
            Phase("classifier", (self.classifier,), self.classifier_loss, self.settings.lr),
            Phase("editors", (self.editor,), self.editor_loss, self.settings.lr_editors),
        ]

    def classifier_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Low risk in every virtual environment, and the same in all."""
        with torch.no_grad():
            dropped = self.edits(batch, self.chances(batch))
        losses, known = self.losses(batch, dropped)
        risks = losses.sum((0, 1)) / known.sum().clamp(min=1)
        variance = variance_over(risks, torch.ones_like(risks, dtype=torch.bool), unbiased=True)
        return {"variance": variance, "risk": self.settings.beta * risks.mean()}

    def editor_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """REINFORCE: edits are more likely where they made environments disagree more than in other graphs."""
        chances = self.chances(batch)
        with torch.no_grad():
            dropped = self.edits(batch, chances)
            reward, counts = self.rewards(*self.losses(batch, dropped))
            gain = reward - mean_over(reward, counts)
        likelihood = self.log_likelihood(batch, chances, dropped).sum(1)
        return {"editors": -mean_over(gain * likelihood, counts)}

    def chances(self, batch: GraphBatch) -> Tensor:
        """With what chance each editor drops each edge `[E, K]`; never for sure, so that logarithms are finite."""
        logits, _ = self.editor(batch)
        chances: Tensor = (self.settings.strength * logits.sigmoid()).clamp(max=1 - 1e-6)
        return chances

    def edits(self, batch: GraphBatch, chances: Tensor) -> Tensor:
        """Which edges each editor drops `[E, K]`, both directions together."""
        draw = torch.rand(chances.shape, generator=self.random, device=chances.device, dtype=chances.dtype)
        return both_directions(draw, batch) < chances

    def log_likelihood(self, batch: GraphBatch, chances: Tensor, dropped: Tensor) -> Tensor:
        """Of each editor's edits of each graph `[B, K]`; an undirected edge counts once."""
        logs = torch.where(dropped, chances.clamp(min=1e-12).log(), (-chances).log1p())
        return batch.sum_edges(torch.where(batch.first_direction[:, None], logs, 0))

    def losses(self, batch: GraphBatch, dropped: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of each label in each edited view `[B, T, K]`, and which labels count `[B, T]`."""
        views = []
        for edge in (~dropped).to(next(self.parameters()).dtype).unbind(1):
            logits = self.classifier(batch, Mask.on_edges(edge, batch))
            losses, known = label_losses(logits, batch, self.schema.task)
            views.append(losses)
        return torch.stack(views, dim=2), known

    @staticmethod
    def rewards(losses: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Variance of each graph's mean loss over the views `[B]`, 0 for one view; and which graphs have a label."""
        mean = losses.sum(1) / known.sum(1, keepdim=True).clamp(min=1)
        apart = (mean - mean.mean(1, keepdim=True)).square().sum(1)
        return apart / max(mean.shape[1] - 1, 1), known.any(1)
