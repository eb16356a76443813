"""Graphs with a weight for each node and edge, as augmentations make them."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from outland.graphs import GraphBatch, PackedGraphs
from outland.graphs.edges import rows_of_graphs
from outland.nn import Mask


@dataclass(frozen=True)
class WeightedGraphs:
    """A set of graphs with a weight for each node and edge, as A ⊙ M and X ⊙ M of the paper.

    Args:
        graphs: the set.
        node_weight: multiplies each node's input `[N]`; None is 1 everywhere.
        edge_weight: multiplies each edge's message `[E]`; None is 1 everywhere.
    """

    graphs: PackedGraphs
    node_weight: Tensor | None = None
    edge_weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def weighted(self) -> bool:
        """Whether any weights are given."""
        return self.node_weight is not None or self.edge_weight is not None

    def weights(self) -> tuple[Tensor, Tensor]:
        """The weights of nodes and edges, 1 where none are given."""
        ones = self.graphs.x.new_ones(len(self.graphs.x), dtype=torch.float)
        node = ones if self.node_weight is None else self.node_weight.float()
        edge = ones.new_ones(self.graphs.edge_index.shape[1]) if self.edge_weight is None else self.edge_weight.float()
        return node, edge

    def to(self, device: torch.device | str) -> "WeightedGraphs":
        """Copy to a device."""
        weights = (None if weight is None else weight.to(device) for weight in (self.node_weight, self.edge_weight))
        return WeightedGraphs(self.graphs.to(device), *weights)

    def select(self, index: Tensor) -> "WeightedGraphs":
        """The graphs at `index`, in its order."""
        graphs, node, edge = self.graphs, self.node_weight, self.edge_weight
        if node is not None:
            node = node[rows_of_graphs(index.cpu(), graphs.node_counts, graphs.node_offsets).to(node.device)]
        if edge is not None:
            edge = edge[rows_of_graphs(index.cpu(), graphs.edge_counts, graphs.edge_offsets).to(edge.device)]
        return WeightedGraphs(graphs.select(index), node, edge)

    def fingerprints(self) -> list[bytes]:
        """A short hash of each graph's nodes and edges in their order, without its weights."""
        packed = self.graphs.to("cpu")
        nodes, edges = packed.node_counts.tolist(), packed.edge_counts.tolist()
        parts = [packed.x.split(nodes), packed.edge_index.T.split(edges)]
        if packed.edge_attr is not None:
            parts.append(packed.edge_attr.split(edges))
        return [
            blake2b(b"|".join(part.numpy().tobytes() for part in graph), digest_size=12).digest()
            for graph in zip(*parts, strict=True)
        ]

    def mask(self, batch: GraphBatch) -> Mask | None:
        """The weights of a batch of this set in the exact layout; None where there are none."""
        if not self.weighted:
            return None
        node, edge = self.weights()
        node_rows = _rows(self.graphs.node_offsets, batch.node_count, batch.node_batch, batch.index)
        edge_rows = _rows(self.graphs.edge_offsets, batch.edge_count, batch.edge_batch, batch.index)
        return Mask(node[node_rows], edge[edge_rows])


def _rows(offsets: Tensor, counts: Tensor, batch: Tensor, index: Tensor) -> Tensor:
    """The row in the set of each node or edge of a batch."""
    first = offsets.to(batch.device)[index] - (counts.cumsum(0) - counts)
    return torch.arange(len(batch), device=batch.device) + first[batch]


def without_extras(graphs: PackedGraphs, **changes: Any) -> PackedGraphs:
    """The graphs with features, edges and labels alone, some of them replaced by `changes`."""
    names = ("x", "edge_index", "node_counts", "edge_counts", "y", "reverse", "edge_attr")
    return PackedGraphs(**{name: getattr(graphs, name) for name in names} | changes)
