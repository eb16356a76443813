"""Cutting graphs in two by learned edge scores: the rationale that decides, and the complement."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings
from outland.methods.parts.edge_scorer import EdgeScorer
from outland.methods.parts.ranking import ranks
from outland.nn import BackboneSettings, GraphNet, Mask
from outland.settings import check_ranges

Rounding = Literal["ceil", "floor"]


def top_edges(scores: Tensor, batch: GraphBatch, ratio: float, rounding: Rounding = "ceil") -> Tensor:
    """Which edges `[E]` are among the best ⌈ratio·m⌉ or ⌊ratio·m⌋ of their graph's m undirected ones."""
    first = batch.first_direction  # it stands for both
    total = batch.sum_edges(first.long()).double() * ratio
    # 0.7 * 10 is a little more than 7: rounding must not see it.
    quota = ((total - 1e-9).ceil() if rounding == "ceil" else (total + 1e-9).floor()).long()
    quota = torch.cat([quota, quota.new_zeros(1)])  # none for padding, which follows the graphs
    keys = torch.where(first, -scores.detach(), torch.inf)
    chosen = first & (ranks(keys, batch.edge_batch, batch.num_graphs + 1) < quota[batch.edge_batch])
    return chosen | chosen[batch.reverse]


def cut(scores: Tensor, kept: Tensor, batch: GraphBatch) -> tuple[Mask, Mask]:
    """The rationale, σ(s) on the edges kept, and the complement, σ(-s) on the others.

    A node is in the parts whose edges it touches, with weight 1. One that has no edge at all was not judged: it stays
    in the rationale, so that a rationale that keeps every edge is the whole graph.
    """
    left = ~kept & batch.real_edges
    in_rationale, in_complement = touched(kept, batch), touched(left, batch)
    lone = batch.real_nodes & ~(in_rationale | in_complement)
    node = (in_rationale | lone).to(scores.dtype), in_complement.to(scores.dtype)
    edge = torch.where(kept, scores.sigmoid(), 0), torch.where(left, (-scores).sigmoid(), 0)
    return Mask(node[0], edge[0]), Mask(node[1], edge[1])


def touched(edges: Tensor, batch: GraphBatch) -> Tensor:
    """Which nodes `[N]` are an end of at least one of these edges `[E]`."""
    count = torch.zeros(batch.num_nodes, dtype=torch.long, device=edges.device)
    for end in batch.edge_index:
        count = count.index_add(0, end, edges.long())
    return count > 0


def by_edges(edges: Tensor, batch: GraphBatch) -> Mask:
    """The mask with these weights on edges `[E]`, and on every node the highest of its edges'; 0 if it has none."""
    node = edges.new_zeros(batch.num_nodes)
    for end in batch.edge_index:
        node = node.scatter_reduce(0, end, edges, "amax")
    return Mask(node, edges)


def pool_part(features: Tensor, mask: Mask, batch: GraphBatch, pool: Literal["mean", "sum"]) -> Tensor:
    """Mean or sum over the nodes of a part `[B, d]`; 0 for a graph that has none there."""
    total = batch.sum_nodes(features * mask.node[:, None])
    return total if pool == "sum" else total / batch.sum_nodes(mask.node).clamp(min=1)[:, None]


def embed_part(net: GraphNet, batch: GraphBatch, mask: Mask, states: Tensor | None = None) -> Tensor:
    """Embeddings of a part `[B, d]`, as if its graphs had been built anew without the other nodes.

    To the encoder those are padding, so that batch norm does not see them either.
    """
    features = net.encoder(batch.replace(node_mask=mask.node > 0), mask.node, mask.edge, states)
    return pool_part(features, mask, batch, net.encoder.settings.pool)


@dataclass(frozen=True)
class SubgraphSettings(MethodSettings):
    """Hyper-parameters of methods that cut graphs in two.

    Args:
        ratio: r, share of each graph's undirected edges that the rationale keeps.
        rounding: `ceil` of r times the edges, so that no rationale is empty, or `floor`.
        scorer_layers: depth of the network that scores edges.
        classifier_input: what the classifier reads on the nodes of a part: the graph's `raw` features, or the score
            network's embeddings (`encoded`), through which the whole graph leaks into each part.
    """

    ratio: float = 0.25
    rounding: Rounding = "ceil"
    scorer_layers: int = 2
    classifier_input: Literal["raw", "encoded"] = "raw"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", ratio=(0, 1), scorer_layers=(1, None))


@dataclass(frozen=True)
class Parts:
    """A batch cut in two: both masks, and the score network's node embeddings H `[N, d]`."""

    rationale: Mask
    complement: Mask
    features: Tensor


class SubgraphMethod(Method):
    """Score edges, keep the best, classify what is kept."""

    Settings: ClassVar[type[MethodSettings]] = SubgraphSettings
    training_only: ClassVar[tuple[str, ...]] = ("environment_head",)

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: Any = None) -> None:
        super().__init__(schema, backbone, settings)
        chosen: SubgraphSettings = self.settings
        self.scorer = EdgeScorer(replace(backbone, layers=chosen.scorer_layers), schema, 4 * backbone.width)
        encoded = chosen.classifier_input == "encoded"
        self.classifier = GraphNet(backbone, schema, backbone.width if encoded else None)

    def parts(self, batch: GraphBatch) -> Parts:
        """Rationale and complement of every graph."""
        scores, features = self.scorer(batch)
        scores = scores.squeeze(1)
        kept = top_edges(scores, batch, self.settings.ratio, self.settings.rounding)
        return Parts(*cut(scores, kept, batch), features)

    def embed(self, batch: GraphBatch, mask: Mask, parts: Parts) -> Tensor:
        """The classifier's embeddings of one part `[B, d]`."""
        states = parts.features if self.settings.classifier_input == "encoded" else None
        return embed_part(self.classifier, batch, mask, states)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits from the rationale."""
        parts = self.parts(batch)
        logits: Tensor = self.classifier.head(self.embed(batch, parts.rationale, parts), batch)
        return logits

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """How far each edge belongs to the rationale, σ(s), before the cut; a node as far as the best of its edges."""
        scores, _ = self.scorer(batch)
        stable = torch.where(batch.real_edges, scores.squeeze(1).sigmoid(), 0)
        stable = (stable + batch.reversed(stable)) / 2  # the same to the last bit
        environment = torch.where(batch.real_edges, 1 - stable, 0)
        return {"stable": by_edges(stable, batch), "environment": by_edges(environment, batch)}
