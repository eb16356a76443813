"""EERM: editors make virtual environments whose risks differ; the classifier lowers their mean and variance."""

from dataclasses import replace

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import MethodSettings, Phase, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.environments import variance_over
from outland.methods.parts.ranking import both_directions
from outland.methods.parts.risk import label_losses, mean_over
from outland.methods.parts.subgraphs import EdgeScorer
from outland.nn import BackboneSettings, Mask
from outland.settings import Fraction, NonNegative, PositiveInt, settings


@settings("method")
class EERMSettings(MethodSettings):
    """Hyper-parameters of EERM.

    Args:
        lr_editors: learning rate of the editors.
        editors: K, virtual environments of each graph.
        beta: β, weight of the mean risk against the variance.
        strength: s, the largest probability with which an editor may drop an edge; 0 leaves every graph as it is.
        editor_layers: depth of the editors' own encoder.
    """

    lr_editors: NonNegative = 1e-3
    editors: PositiveInt = 3
    beta: NonNegative = 1.0
    strength: Fraction = 0.5
    editor_layers: PositiveInt = 2


class EERM(ERM[EERMSettings]):
    r"""Handling Distribution Shifts on Graphs: An Invariance Perspective (Wu et al., ICLR 2022), for whole graphs.

    .. math::
        \min_\theta\; & \mathrm{Var}_k(R_k) + \beta\,\frac1K\sum_k R_k, \quad
            R_k = \mathbb{E}\,[\ell(f(g_k), y)], \quad g_k \sim p_k(\cdot \mid g) \\
        \max_\phi\; & \mathbb{E}\Big[(r - \bar r) \sum_k \log p_k(g_k \mid g)\Big], \quad
            r = \mathrm{Var}_k\,\ell(f(g_k), y)

    The paper edits one large graph, with a table of logits over all pairs of nodes for each editor. Here the editors
    are one network for all graphs: editor k drops an undirected edge with probability :math:`s\,\sigma(a_k)`,
    independently, so that the likelihood in the score function is that of the draw. They add no edges, take one step
    for each of the classifier's, and are not initialised anew each epoch. The reward is each graph's own variance, its
    baseline the batch's mean. Variances are unbiased; of one editor, 0. Whole graphs at inference.
    """

    name = "eerm"
    family = "graph"
    citation = "Wu et al., ICLR 2022"
    space = {"beta": (0.5, 1.0, 3.0), "lr_editors": (1e-4, 1e-3, 1e-2)}
    training_only = ("editor",)
    learns_augmentation = True

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: EERMSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        encoder = replace(backbone, layers=self.settings.editor_layers)
        self.editor = EdgeScorer(encoder, schema, backbone.width, self.settings.editors)

    def phases(self) -> list[Phase]:
        """The classifier first, then the editors against the updated classifier."""
        return [
            Phase("classifier", (self.classifier,), self.classifier_loss, self.settings.lr),
            Phase("editors", (self.editor,), self.editor_loss, self.settings.lr_editors),
        ]

    def classifier_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Variance and mean of the risks in the virtual environments."""
        with torch.no_grad():
            dropped = self.draw_edits(batch, self.drop_probabilities(batch))
        losses, known = self.losses(batch, dropped)
        risks = losses.sum((0, 1)) / known.sum().clamp(min=1)
        variance = variance_over(risks, torch.ones_like(risks, dtype=torch.bool), unbiased=True)
        return {"variance": variance, "risk": self.settings.beta * risks.mean()}

    def editor_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """REINFORCE: minus the log-likelihood of the edits, times how far a graph's reward is above the mean."""
        probabilities = self.drop_probabilities(batch)
        with torch.no_grad():
            dropped = self.draw_edits(batch, probabilities)
            reward, counts = self.rewards(*self.losses(batch, dropped))
            advantage = reward - mean_over(reward, counts)
        log_likelihood = self.log_likelihood(batch, probabilities, dropped).sum(1)
        return {"editors": -mean_over(advantage * log_likelihood, counts)}

    def drop_probabilities(self, batch: GraphBatch) -> Tensor:
        """Probability with which each editor drops each edge `[E, K]`, below 1 so that logarithms are finite."""
        logits, _ = self.editor(batch)
        probabilities: Tensor = (self.settings.strength * logits.sigmoid()).clamp(max=1 - 1e-6)
        return probabilities

    def draw_edits(self, batch: GraphBatch, probabilities: Tensor) -> Tensor:
        """Which edges each editor drops `[E, K]`, both directions together."""
        uniform = torch.empty_like(probabilities).uniform_(generator=self.random)
        return both_directions(uniform, batch) < probabilities

    def log_likelihood(self, batch: GraphBatch, probabilities: Tensor, dropped: Tensor) -> Tensor:
        """Of each editor's edits of each graph `[B, K]`; an undirected edge counts once."""
        logs = torch.where(dropped, probabilities.clamp(min=1e-12).log(), (-probabilities).log1p())
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
        squares = (mean - mean.mean(1, keepdim=True)).square().sum(1)
        return squares / max(mean.shape[1] - 1, 1), known.any(1)

    def augment(self, batch: GraphBatch) -> Mask:
        """Weight 0 for the edges that one editor, drawn for each graph, drops."""
        dropped = self.draw_edits(batch, self.drop_probabilities(batch))
        editor = torch.randint(dropped.shape[1], (batch.num_graphs,), generator=self.random, device=batch.x.device)
        dropped = dropped.gather(1, editor[batch.edge_batch, None]).squeeze(1)
        return Mask.on_edges((~dropped).to(next(self.parameters()).dtype), batch)
