"""The mask network: which nodes and edges of a graph matter, as numbers between 0 and 1."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.nn.backbones import build_encoder
from outland.nn.layers import PairLinear, pair_scores
from outland.nn.settings import BackboneSettings
from outland.ops import mask_weights


@dataclass(frozen=True)
class Mask:
    """A weight in [0, 1] for every node `[N]` and every edge `[E]` of a batch."""

    node: Tensor
    edge: Tensor

    def symmetric(self, batch: GraphBatch) -> "Mask":
        """Both directions of an undirected edge share the mean of their weights."""
        return Mask(self.node, (self.edge + batch.reversed(self.edge)) / 2)

    def merge(self, other: "Mask") -> "Mask":
        r"""Shelter what this mask keeps and leave the rest to `other`: :math:`(1-M)\odot M' + M`."""
        # Written M' + M (1 - M'): if `other` needs no gradient, going back is one product for nodes and one for edges.
        pairs = ((self.node, other.node), (self.edge, other.edge))
        return Mask(*(torch.addcmul(right, left, 1 - right) for left, right in pairs))

    def complement(self) -> "Mask":
        """What this mask leaves out."""
        return Mask(1 - self.node, 1 - self.edge)

    @classmethod
    def on_edges(cls, edge: Tensor, batch: GraphBatch) -> "Mask":
        """These weights on the edges, and every node whole."""
        return cls(edge.new_ones(batch.num_nodes), edge)

    @classmethod
    def full(cls, batch: GraphBatch, value: float = 1.0, dtype: torch.dtype = torch.float32) -> "Mask":
        """The same weight everywhere."""
        node = torch.full((batch.num_nodes,), value, dtype=dtype, device=batch.x.device)
        return cls(node, node.new_full((batch.num_edges,), value))


class Masker(nn.Module):
    r"""A GNN with a node head and an edge head (equation 6 of AIA).

    .. math:: Z = \mathrm{GNN}(g), \quad M^x_i = \sigma(a^\top z_i + b), \quad
              M^a_{ij} = \sigma(c^\top [z_i, z_j] + d)

    A `head` is as above, or for `mlp` has one hidden layer of width d, for nodes and edges alike.
    """

    def __init__(self, settings: BackboneSettings, schema: Schema, head: Literal["linear", "mlp"] = "linear") -> None:
        super().__init__()
        self.encoder = build_encoder(settings, schema.node, schema.edge)
        width = settings.width
        first = 1 if head == "linear" else width
        self.node_head = nn.Linear(width, first)
        self.edge_head = PairLinear(width, first)
        self.node_last = nn.Linear(width, 1) if head == "mlp" else None
        self.edge_last = nn.Linear(width, 1) if head == "mlp" else None

    def forward(self, batch: GraphBatch) -> Mask:
        """The mask of every graph in the batch."""
        z = self.encoder(batch)
        node, edge = self.node_head, self.edge_head
        if self.node_last is None or self.edge_last is None:
            return Mask(*mask_weights(z, node.weight, node.bias, edge.weight, edge.bias, batch.edges))
        node_logit, edge_logit = self.node_last(node(z).relu()), pair_scores(edge, self.edge_last, z, batch)
        return Mask(node_logit.squeeze(1).sigmoid(), edge_logit.squeeze(1).sigmoid())
