"""PrunE: drop the edges that are easily recognised as uninformative, and leave the rest to the classifier."""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms, warm_up_epochs
from outland.methods.parts.ranking import both_directions, rank_within_group
from outland.methods.parts.risk import mean_over
from outland.nn import BackboneSettings, GraphNet, Mask, build_encoder
from outland.settings import Fraction, NonNegative, PositiveInt, settings

Over = Literal["graph", "batch"]


@settings("method")
class PrunESettings(MethodSettings):
    """Hyper-parameters of PrunE.

    Args:
        budget: η, share of the edges that should be kept.
        lowest: K, share of the edges, those of the lowest probabilities, whose probabilities are pulled to 0.
        size: λ₁, weight of the distance of the share that is kept from η.
        alignment: λ₂, weight of the probabilities of the lowest edges.
        warm_up: share of the epochs, from the start, that train on whole graphs; none of them is selected.
        over: whether shares and the lowest edges are those of each `graph`, or of the whole `batch`, as in the code.
        size_form: the `squared` distance; or the code's `lopsided` absolute one, four times as steep above the budget.
        alignment_form: `mean` of the distances from 1/m, of m edges; or half their `sum`, from 1/k, of the k lowest.
        inference: keep an edge where its probability is above one half (`threshold`), or weigh it by its `probability`.
        symmetric: both directions of an edge are kept or dropped together; in the code each has a draw of its own.
        readout: the authors' sum divided by its norm (`unit`), or that of the `backbone`.
        temperature: τ of the gradient of the draws.
        selector_layers: depth of the network that scores edges.
    """

    budget: Fraction = 0.85
    lowest: Fraction = 0.9
    size: NonNegative = 10.0
    alignment: NonNegative = 1.0
    warm_up: Fraction = 0.1
    over: Over = "graph"
    size_form: Literal["squared", "lopsided"] = "squared"
    alignment_form: Literal["mean", "sum"] = "mean"
    inference: Literal["threshold", "probability"] = "threshold"
    symmetric: bool = True
    readout: Literal["unit", "backbone"] = "unit"
    temperature: Annotated[float, Field(ge=1e-3)] = 0.2
    selector_layers: PositiveInt = 2


class EdgeSelector(nn.Module):
    r"""A GNN and a two-layer network on the sum of both ends of an edge: :math:`\Delta_{uv} = \mathrm{MLP}(z_u + z_v)`.

    Δ is the difference of the authors' two logits, so that an edge is kept with probability :math:`p = \sigma(\Delta)`.
    """

    def __init__(self, backbone: BackboneSettings, schema: Schema) -> None:
        super().__init__()
        self.encoder = build_encoder(backbone, schema.node, schema.edge)
        self.first = nn.Linear(backbone.width, 2 * backbone.width, bias=False)
        self.bias = nn.Parameter(torch.zeros(2 * backbone.width))
        self.last = nn.Linear(2 * backbone.width, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Log-odds Δ of the edges `[E]`, the same for both directions."""
        ends = self.first(self.encoder(batch))  # a map of the sum is the sum of the maps
        hidden = (batch.at_source(ends) + batch.at_target(ends) + self.bias).relu()
        score: Tensor = self.last(hidden).squeeze(1)
        return score


class PrunE(Method[PrunESettings]):
    r"""Pruning spurious subgraphs for graph out-of-distribution generalization (Yao et al., NeurIPS 2025).

    .. math:: \min \hat R(f(g \odot w)) + \lambda_1 \overline{\Big(\frac1m\sum_e w_e - \eta\Big)^2}
              + \lambda_2 \overline{\frac1k\sum_{e \in S} \Big|p_e - \frac1m\Big|}, \quad
              w_e \sim \mathrm{Bernoulli}(p_e)

    S are the k of a graph's m edges with the lowest probabilities; means are over graphs. A draw is hard, and its
    gradient that of :math:`\sigma((\Delta_e + L)/\tau)`, L logistic noise. What the public code minimises instead,
    over the whole batch, is `prune:released`. In the first epochs it is plain ERM; these are not selected. The
    authors draw anew at inference, too; here an edge is kept or not by its probability, so that predictions are
    deterministic. Nodes are never masked: one that has lost its edges still enters the readout, a sum divided by its
    length, which alone makes the embedding independent of size. The head is the backbone's; the authors' has two
    hidden layers.
    """

    name = "prune"
    family = "graph"
    citation = "Yao et al., NeurIPS 2025"
    presets = {
        "released": lambda: PrunESettings(
            alignment=1e-3, over="batch", size_form="lopsided", alignment_form="sum", symmetric=False
        )
    }
    space = {
        "budget": (0.5, 0.75, 0.85),
        "lowest": (0.5, 0.7, 0.9),
        "size": (10.0, 40.0),
        "alignment": (0.1, 1.0, 10.0),
    }
    is_pruning: Tensor
    kept: Tensor

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: PrunESettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        unit = replace(backbone, pool="sum", unit_readout=True)
        self.classifier = GraphNet(unit if self.settings.readout == "unit" else backbone, schema)
        self.selector = EdgeSelector(replace(backbone, layers=self.settings.selector_layers), schema)
        self.register_buffer("is_pruning", torch.zeros((), dtype=torch.bool))  # whether the warm-up is over
        self.register_buffer("kept", torch.ones(()), persistent=False)

    def barred_epochs(self, epochs: int) -> int:
        """Those of the warm-up."""
        return warm_up_epochs(self.settings.warm_up, epochs)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The risk on what is kept, and the penalties of size and alignment; at first the risk of whole graphs."""
        settings = self.settings
        if progress.branch(lambda now: now.epoch < self.barred_epochs(now.epochs)):
            return {"risk": self.risk(self.classifier(batch), batch)}
        self.is_pruning.fill_(True)
        score = self.selector(batch)
        weight = straight_through(score, self.noise(score, batch), settings.temperature)
        with torch.no_grad():
            self.kept.copy_(mean_over(weight, batch.real_edges))
        lowest = alignment_penalty(score.sigmoid(), batch, settings.lowest, settings.over, settings.alignment_form)
        share = size_penalty(weight, batch, settings.budget, settings.over, settings.size_form)
        return {
            "risk": self.risk(self.classifier(batch, Mask.on_edges(weight, batch)), batch),
            "size": settings.size * share,
            "alignment": settings.alignment * lowest,
        }

    def noise(self, score: Tensor, batch: GraphBatch) -> Tensor:
        """Logistic noise for each edge `[E]`, the difference of two Gumbel draws."""
        uniform = torch.rand(score.shape, generator=self.random, device=score.device, dtype=score.dtype)
        noise = uniform.logit(torch.finfo(score.dtype).eps)
        return both_directions(noise, batch) if self.settings.symmetric else noise

    def diagnostics(self) -> Terms:
        """The share of the edges that was kept."""
        return {"kept": self.kept}

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of what is kept; of whole graphs as long as the warm-up lasts."""
        probability = self.selector(batch).sigmoid()
        if self.settings.inference == "threshold":
            probability = (probability > 0.5).to(probability.dtype)
        weight = torch.where(self.is_pruning, probability, 1)
        return self.classifier.embed(batch, Mask.on_edges(weight, batch))

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The probabilities of the edges; no node is masked."""
        return {"stable": Mask.on_edges(self.selector(batch).sigmoid(), batch).symmetric(batch)}


def straight_through(score: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Hard draws with log-odds `score`, 1 where score and noise are above 0, with the gradient of the relaxed ones."""
    soft = ((score + noise) / temperature).sigmoid()
    return (soft > 0.5).to(soft.dtype) - soft.detach() + soft


def _groups(batch: GraphBatch, over: Over) -> tuple[Tensor, int]:
    """Group of each edge `[E]` and the number of groups: graphs, or the one batch; padding follows them."""
    if over == "graph":
        return batch.edge_batch, batch.num_graphs
    return (~batch.real_edges).long(), 1


def _sums(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Sums of values `[E]` by group `[groups]`, without padding, in single precision at least."""
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    return values.new_zeros(groups + 1).index_add(0, group, values)[:groups]


def size_penalty(weight: Tensor, batch: GraphBatch, budget: float, over: Over, form: str) -> Tensor:
    """Distance of the share of edges that is kept from the budget, mean over the groups that have edges."""
    group, groups = _groups(batch, over)
    number = _sums(torch.ones_like(weight), group, groups)
    excess = _sums(weight, group, groups) / number.clamp(min=1) - budget
    distance = excess.square() if form == "squared" else torch.where(excess >= 0, 4 * excess, -excess)
    return mean_over(distance, number > 0)


def alignment_penalty(probability: Tensor, batch: GraphBatch, share: float, over: Over, form: str) -> Tensor:
    """Distance from almost 0 of the lowest `share` of the probabilities of each group, mean over groups."""
    group, groups = _groups(batch, over)
    number = _sums(torch.ones_like(probability), group, groups)
    count = (share * number + 1e-6).floor()
    ranks = rank_within_group(probability.detach(), group, groups + 1)
    target = 1 / (number if form == "mean" else count).clamp(min=1)
    quota, level = (torch.cat([values, values.new_zeros(1)])[group] for values in (count, target))  # none for padding
    total = _sums(torch.where(ranks < quota, (probability - level).abs(), 0), group, groups)
    return mean_over(total / count.clamp(min=1) if form == "mean" else total / 2, count > 0)
