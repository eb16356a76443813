"""Splitting graphs in two by learned edge scores: the rationale, and its complement."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings
from outland.methods.parts.ranking import Rounding, top_edges
from outland.nn import BackboneSettings, GraphNet, Mask, PairLinear, build_encoder
from outland.nn.layers import pair_scores
from outland.settings import Fraction, PositiveInt, settings


class EdgeScorer(nn.Module):
    r"""A GNN and a two-layer network on the two ends of each edge; both directions share the mean of their scores.

    .. math:: H = \mathrm{GNN}(g), \quad s_{uv} = \tfrac12\big(\mathrm{MLP}[H_u, H_v] + \mathrm{MLP}[H_v, H_u]\big)
    """

    def __init__(self, settings: BackboneSettings, schema: Schema, hidden: int, scores: int = 1) -> None:
        super().__init__()
        self.encoder = build_encoder(settings, schema.node, schema.edge)
        self.first = PairLinear(settings.width, hidden)
        self.last = nn.Linear(hidden, scores)

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Scores of the edges `[E, scores]` and node embeddings H `[N, d]`."""
        features: Tensor = self.encoder(batch)
        scores = pair_scores(self.first, self.last, features, batch)
        return (scores + batch.reversed(scores)) / 2, features


def split(scores: Tensor, top: Tensor, batch: GraphBatch) -> tuple[Mask, Mask]:
    """The rationale, σ(s) on the top edges, and the complement, σ(-s) on the others.

    A node is in the parts whose edges it touches, with weight 1. One without any edge is in the rationale, so that a
    rationale of all edges is the whole graph.
    """
    rest = ~top & batch.real_edges
    in_rationale, in_complement = (highest_edge(edges.long(), batch) > 0 for edges in (top, rest))
    isolated = batch.real_nodes & ~(in_rationale | in_complement)
    rationale = Mask((in_rationale | isolated).to(scores.dtype), torch.where(top, scores.sigmoid(), 0))
    complement = Mask(in_complement.to(scores.dtype), torch.where(rest, (-scores).sigmoid(), 0))
    return rationale, complement


def highest_edge(weights: Tensor, batch: GraphBatch) -> Tensor:
    """The highest of these weights `[E]` among the edges of each node `[N]`; 0 if it has none."""
    highest = weights.new_zeros(batch.num_nodes)
    for end in batch.edge_index:
        highest = highest.scatter_reduce(0, end, weights, "amax")
    return highest


def embed_part(net: GraphNet, batch: GraphBatch, mask: Mask, states: Tensor | None = None) -> Tensor:
    """Embeddings of a part `[B, d]`, as of graphs without the other nodes; 0 for a graph that has none there.

    To the encoder those are padding, so that they do not enter batch norm either.
    """
    features = net.encoder(batch.replace(node_mask=mask.node > 0), mask.node, mask.edge, states)
    embeddings: Tensor = net.readout(features, batch, mask.node, masked=True)
    return embeddings


@settings("method")
class SubgraphSettings(MethodSettings):
    """Hyper-parameters of methods that split graphs in two.

    Args:
        ratio: r, share of each graph's undirected edges that the rationale keeps.
        rounding: `ceil` of r times the edges, so that no rationale is empty, or `floor`.
        scorer_layers: depth of the network that scores edges.
        classifier_input: what the classifier reads on the nodes of a part: the graph's `raw` features, or the score
            network's embeddings (`encoded`), through which the whole graph leaks into each part.
    """

    ratio: Fraction = 0.25
    rounding: Rounding = "ceil"
    scorer_layers: PositiveInt = 2
    classifier_input: Literal["raw", "encoded"] = "raw"


P = TypeVar("P", bound=SubgraphSettings, covariant=True, default=SubgraphSettings)


@dataclass(frozen=True)
class Parts:
    """A batch split in two: both masks, and the score network's node embeddings H `[N, d]`."""

    rationale: Mask
    complement: Mask
    features: Tensor


class SubgraphMethod(Method[P]):
    """Score edges, keep the best, classify the subgraph of these."""

    training_only = ("environment_head",)

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: P | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.scorer = EdgeScorer(replace(backbone, layers=self.settings.scorer_layers), schema, 4 * backbone.width)
        encoded = self.settings.classifier_input == "encoded"
        self.classifier = GraphNet(backbone, schema, backbone.width if encoded else None)
        self.mask_depth = self.settings.scorer_layers if encoded else 0

    def parts(self, batch: GraphBatch) -> Parts:
        """Rationale and complement of every graph."""
        scores, features = self.scorer(batch)
        scores = scores.squeeze(1)
        top = top_edges(scores, batch, self.settings.ratio, self.settings.rounding)
        return Parts(*split(scores, top, batch), features)

    def embed_part(self, batch: GraphBatch, mask: Mask, parts: Parts) -> Tensor:
        """The classifier's embeddings of one part `[B, d]`."""
        states = parts.features if self.settings.classifier_input == "encoded" else None
        return embed_part(self.classifier, batch, mask, states)

    def embed_rationale(self, batch: GraphBatch, parts: Parts) -> Tensor:
        """The classifier's embeddings of the rationale `[B, d]`, and descriptors, which are in no complement."""
        return self.classifier.add_descriptors(self.embed_part(batch, parts.rationale, parts), batch)

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of the rationale."""
        return self.embed_rationale(batch, self.parts(batch))

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """σ(s) of each edge, before the split, and 1 - σ(s); on every node the highest of its edges."""
        scores, _ = self.scorer(batch)
        stable = torch.where(batch.real_edges, scores.squeeze(1).sigmoid(), 0)
        stable = (stable + batch.reversed(stable)) / 2  # the same to the last bit
        edges = {"stable": stable, "environment": torch.where(batch.real_edges, 1 - stable, 0)}
        return {name: Mask(highest_edge(weights, batch), weights) for name, weights in edges.items()}
