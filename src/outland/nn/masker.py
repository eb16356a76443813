"""The mask network: which nodes and edges of a graph matter, as numbers between 0 and 1."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from outland.graphs import Features, GraphBatch, Schema
from outland.nn.encoder import Encoder
from outland.nn.settings import BackboneSettings


@dataclass(frozen=True)
class Mask:
    """A weight in [0, 1] for every node `[N]` and every edge `[E]` of a batch."""

    node: Tensor
    edge: Tensor

    def detach(self) -> "Mask":
        """The same numbers, without a gradient."""
        return Mask(self.node.detach(), self.edge.detach())

    def symmetric(self, batch: GraphBatch) -> "Mask":
        """Both directions of an undirected edge share the mean of their weights."""
        return Mask(self.node, (self.edge + batch.reversed(self.edge)) / 2)

    def merge(self, other: "Mask") -> "Mask":
        r"""Shelter what this mask keeps and leave the rest to `other`: :math:`(1-M)\odot M' + M`."""
        return Mask((1 - self.node) * other.node + self.node, (1 - self.edge) * other.edge + self.edge)

    @classmethod
    def full(cls, batch: GraphBatch, value: float = 1.0, dtype: torch.dtype = torch.float32) -> "Mask":
        """The same weight everywhere."""
        node = torch.full((batch.num_nodes,), value, dtype=dtype, device=batch.x.device)
        return cls(node, node.new_full((batch.num_edges,), value))


class Masker(nn.Module):
    r"""A GNN with a node head and an edge head (equation 6 of AIA).

    .. math:: Z = \mathrm{GNN}(g), \quad M^x_i = \sigma(a^\top z_i + b), \quad
              M^a_{ij} = \sigma(c^\top [z_i, z_j] + d)

    The edge head splits into one number for the source and one for the target, so no tensor of edges × 2d is made.

    Args:
        settings: of the encoder.
        schema: of the graphs.
    """

    def __init__(self, settings: BackboneSettings, schema: Schema) -> None:
        super().__init__()
        inputs: Features = schema.node
        self.encoder = Encoder(settings, inputs, schema.edge)
        self.node_head = nn.Linear(settings.width, 1)
        self.edge_head = nn.Linear(2 * settings.width, 1)

    def forward(self, batch: GraphBatch) -> Mask:
        """The mask of every graph in the batch."""
        z = self.encoder(batch)
        ends = z @ self.edge_head.weight.reshape(2, -1).T
        edge = batch.at_source(ends[:, 0]) + batch.at_target(ends[:, 1]) + self.edge_head.bias
        return Mask(self.node_head(z).squeeze(1).sigmoid(), edge.sigmoid())
