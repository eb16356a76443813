"""Spare: thin at random whatever the label can spare. A prototype; its log is in docs/ours.md.

outland train motif --domain size --method benchmarks/prototypes/spare.py:Spare --set backbone.pool=max
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.cal import uniform_divergence
from outland.methods.parts.ranking import both_directions
from outland.methods.parts.risk import label_losses
from outland.nn import BackboneSettings, GraphNet, Mask, build_encoder, frozen_running_stats
from outland.settings import Fraction, NonNegative, PositiveInt, settings


@settings("method")
class SpareSettings(MethodSettings):
    """Hyper-parameters of Spare.

    Args:
        blur: the first thinning drops each edge of a graph at a rate drawn uniformly from 0 to this.
        drop: rate at which the second one drops an edge that is worth nothing.
        least: ... and one that is worth most.
        take: rate at which an edge that is worth most is dropped from the graphs that are to lose their evidence.
        absence: weight of the divergence of their predictions from the uniform one; 0 has no such graphs.
        worth: weight of the error of the predicted worth of edges.
        scorer: `own` encoder for the worth of edges, or the classifier's, whose states are only read (`shared`).
        scorer_layers: depth of a scorer of its own.
        statistics: of batch norm, from the `first` thinning alone, or from `both`.
    """

    blur: Fraction = 0.3
    drop: Fraction = 0.5
    least: Fraction = 0.1
    take: Fraction = 0.9
    absence: NonNegative = 0.5
    worth: NonNegative = 1.0
    scorer: Literal["own", "shared"] = "own"
    scorer_layers: PositiveInt = 4
    statistics: Literal["first", "both"] = "first"


class Spare(Method[SpareSettings]):
    r"""Thin at random whatever the label can spare.

    An edge's worth :math:`m_e \in (0, 1)` is what the loss rises by when it is dropped, in units of a learned c:

    .. math:: \min_\phi \mathbb{E}\,\Big|\ell(f(g \odot w'), y) - \ell(f(g \odot w), y)
              - c \sum_{e:\,w_e > w'_e} m_e\Big|_{\mathrm{Huber}}

    The classifier is trained on graphs that are thinned twice: w at a rate of its own for each graph, w' at a rate that
    falls with the worth, :math:`\delta - (\delta - \delta_0) m_e`. From half the graphs w' takes the evidence instead,
    at a rate that rises with the worth, and there the prediction is to be uniform.
    """

    name = "spare"
    family = "augmentation"
    citation = "ours"
    learns_augmentation = True

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: SpareSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.classifier = GraphNet(backbone, schema)
        scorer = replace(backbone, layers=self.settings.scorer_layers, dropout=0.0)
        self.scorer = build_encoder(scorer, schema.node, schema.edge) if self.settings.scorer == "own" else None
        self.ends, self.last = nn.Linear(backbone.width, backbone.width), nn.Linear(backbone.width, 1)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Risks after the first and the second thinning, absence, and the error of the worth."""
        settings = self.settings
        first = self.thin(batch, settings.blur * self.uniform(batch.num_graphs + 1, batch)[batch.edge_batch])
        states = self.classifier.encoder(batch, None, first)
        before = self.classifier.head(self.classifier.readout(states, batch), batch)
        worth = self.worth(batch, first, states)
        loses = self.uniform(batch.num_graphs + 1, batch) < (0.5 if settings.absence else 0.0)
        second = first * self.thin(batch, self.rate(worth.detach(), loses[batch.edge_batch]))
        with frozen_running_stats(self.classifier) if settings.statistics == "first" else nullcontext():
            after = self.classifier(batch, Mask.on_edges(second, batch))
        losses, known = label_losses(after, batch, self.schema.task)
        each = losses.sum(1) / known.sum(1).clamp(min=1)
        with torch.no_grad():
            harm = each - label_losses(before, batch, self.schema.task)[0].sum(1) / known.sum(1).clamp(min=1)
        predicted_harm = self.log_scale.exp() * batch.sum_edges(worth * (first - second)) / 2
        absent = settings.absence * uniform_divergence(after, batch, self.schema.task)
        return {
            "first": self.risk(before, batch),
            "second": batch.mean_graphs(torch.where(loses[:-1], absent, each)),
            "worth": settings.worth * batch.mean_graphs(huber_loss(predicted_harm, harm, reduction="none")),
        }

    def worth(self, batch: GraphBatch, edge: Tensor, states: Tensor | None = None) -> Tensor:
        """What each edge is worth to the prediction `[E]`, the same for both directions."""
        if self.scorer is not None:
            states = self.scorer(batch, None, edge)
        elif states is None:
            states = self.classifier.encoder(batch, None, edge)
        ends = self.ends(states if self.scorer is not None else states.detach())
        hidden = (batch.at_source(ends) + batch.at_target(ends)).relu()
        score: Tensor = self.last(hidden).squeeze(1)
        return score.sigmoid()

    def rate(self, worth: Tensor, loses: Tensor) -> Tensor:
        """Rate at which the second thinning drops edges `[E]`: the evidence of graphs that lose it, else the rest."""
        settings = self.settings
        spared = settings.drop - (settings.drop - settings.least) * worth
        return torch.where(loses, settings.least + (settings.take - settings.least) * worth, spared)

    def uniform(self, count: int, batch: GraphBatch) -> Tensor:
        """Numbers between 0 and 1."""
        return torch.rand(count, generator=self.random, device=batch.x.device)

    def thin(self, batch: GraphBatch, rate: Tensor) -> Tensor:
        """Weight 0 for edges that are dropped at this rate, both directions together, and 1 for the others `[E]`."""
        draw = both_directions(self.uniform(batch.num_edges, batch), batch)
        return (draw >= rate).to(self.last.weight.dtype)

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The worth of the edges; no node is masked."""
        whole = torch.ones(batch.num_edges, device=batch.x.device, dtype=self.last.weight.dtype)
        return {"stable": Mask.on_edges(self.worth(batch, whole), batch).symmetric(batch)}

    def augment(self, batch: GraphBatch) -> Mask:
        """The second thinning of whole graphs, of what the label can spare."""
        whole = torch.ones(batch.num_edges, device=batch.x.device, dtype=self.last.weight.dtype)
        rate = self.rate(self.worth(batch, whole), torch.zeros_like(batch.real_edges))
        return Mask.on_edges(self.thin(batch, rate), batch)
