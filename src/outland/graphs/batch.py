"""The batch every model reads, in its exact and its padded layout."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from outland import ops
from outland.ops import EdgeCSR, Edges, Segments


@dataclass(frozen=True)
class GraphBatch:
    """`B` graphs as one: node rows, edge rows, and the graph each belongs to.

    The *exact* layout holds these rows and no others; its masks are None. The *padded* layout is filled up to
    a fixed shape, so that a step can be captured and replayed: padding nodes and edges belong to graph `B`,
    padding edges join padding nodes, and the masks say which rows are real. Padding never changes a result.

    Args:
        x: node features `[N, F]`.
        edge_index: source and target node of each edge `[2, E]`.
        node_batch, edge_batch: graph of each node `[N]` and edge `[E]`.
        reverse: row of each edge's other direction `[E]`; itself if it has none.
        node_count, edge_count: real nodes and edges of each graph `[B]`.
        y: labels `[B]` or `[B, T]`.
        index: index of each graph in the set it came from `[B]`.
        descriptors: numbers known of each graph as a whole `[B, D]`, where there are any; NaN where one is unknown.
        node_mask, edge_mask, graph_mask: which rows are real; None where all are.
        incoming, outgoing: the edges by target and by source; None where they are not grouped.
        node_ptr, edge_ptr: where each graph's nodes and edges begin `[B + 1]`; padding is one more segment, or in none.
        most_nodes: no graph of the batch has more nodes; the same for all batches of a set, and None where not known.
    """

    x: Tensor
    edge_index: Tensor
    node_batch: Tensor
    edge_batch: Tensor
    reverse: Tensor
    node_count: Tensor
    edge_count: Tensor
    y: Tensor
    index: Tensor
    edge_attr: Tensor | None = None
    environment: Tensor | None = None
    node_mask: Tensor | None = None
    edge_mask: Tensor | None = None
    graph_mask: Tensor | None = None
    descriptors: Tensor | None = None
    incoming: EdgeCSR | None = None
    outgoing: EdgeCSR | None = None
    node_ptr: Tensor | None = None
    edge_ptr: Tensor | None = None
    most_nodes: int | None = None

    @property
    def num_graphs(self) -> int:
        """Graphs in the batch, padding ones included."""
        return len(self.node_count)

    @property
    def num_nodes(self) -> int:
        """Node rows, padding included."""
        return self.x.shape[0]

    @property
    def num_edges(self) -> int:
        """Edge rows, padding included."""
        return self.edge_index.shape[1]

    @property
    def real_graphs(self) -> Tensor:
        """Which graphs are no padding `[B]`."""
        return _all_of(self.node_count) if self.graph_mask is None else self.graph_mask

    @property
    def real_nodes(self) -> Tensor:
        """Which node rows are no padding `[N]`."""
        return _all_of(self.node_batch) if self.node_mask is None else self.node_mask

    @property
    def real_edges(self) -> Tensor:
        """Which edge rows are no padding `[E]`."""
        return _all_of(self.edge_batch) if self.edge_mask is None else self.edge_mask

    @property
    def node_number(self) -> Tensor:
        """Index of each node in its own graph, from 0; padding counts on `[N]`."""
        first = torch.cat([self.node_count.cumsum(0) - self.node_count, self.node_count.sum(0, keepdim=True)])
        return torch.arange(self.num_nodes, device=self.x.device) - first[self.node_batch]

    @property
    def first_direction(self) -> Tensor:
        """Which edge rows come before their other direction, or have none: one row for each undirected edge `[E]`."""
        return torch.arange(self.num_edges, device=self.x.device) <= self.reverse

    @property
    def has_reverse(self) -> Tensor:
        """Which edge rows have another direction; a self-loop is its own `[E]`."""
        itself = torch.arange(self.num_edges, device=self.x.device) == self.reverse
        return ~itself | (self.edge_index[0] == self.edge_index[1])

    @property
    def edges(self) -> Edges:
        """The edges, as operations take them."""
        return Edges(self.edge_index, self.incoming, self.outgoing)

    @property
    def node_segments(self) -> Segments:
        """The nodes of each graph, as operations take them."""
        return Segments(self.node_batch, self.node_ptr, self.node_count, self.graph_mask is not None)

    @property
    def edge_segments(self) -> Segments:
        """The edges of each graph, as operations take them."""
        return Segments(self.edge_batch, self.edge_ptr, self.edge_count, self.graph_mask is not None)

    def replace(self, **changes: Any) -> "GraphBatch":
        """A copy with some fields changed; edges or nodes that change are no longer grouped."""
        if "edge_index" in changes:
            changes = {"incoming": None, "outgoing": None, **changes}
        if "node_batch" in changes:
            changes = {"node_ptr": None, "most_nodes": None, **changes}
        if "edge_batch" in changes:
            changes = {"edge_ptr": None, **changes}
        return replace(self, **changes)

    def sum_nodes(self, values: Tensor) -> Tensor:
        """Sum node rows by graph: `[N, ...]` to `[B, ...]`."""
        return ops.pool(values, self.node_segments)

    def sum_edges(self, values: Tensor) -> Tensor:
        """Sum edge rows by graph: `[E, ...]` to `[B, ...]`."""
        return ops.pool(values, self.edge_segments)

    def mean_nodes(self, values: Tensor) -> Tensor:
        """Mean of node rows by graph; 0 for a graph without nodes."""
        return ops.pool(values, self.node_segments, mean=True)

    def mean_edges(self, values: Tensor) -> Tensor:
        """Mean of edge rows by graph; 0 for a graph without edges."""
        return ops.pool(values, self.edge_segments, mean=True)

    def mean_graphs(self, values: Tensor) -> Tensor:
        """Mean over the real graphs: `[B, ...]` to `[...]`."""
        return ops.masked_mean(values, self.graph_mask)

    def broadcast_to_nodes(self, values: Tensor) -> Tensor:
        """Give each node its graph's row: `[B, ...]` to `[N, ...]`; padding nodes get 0."""
        if self.graph_mask is not None:
            values = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
        return values.index_select(0, self.node_batch)

    def at_source(self, values: Tensor) -> Tensor:
        """Give each edge its source node's row: `[N, ...]` to `[E, ...]`."""
        return ops.gather_rows(values, self.edge_index[0], self.outgoing)

    def at_target(self, values: Tensor) -> Tensor:
        """Give each edge its target node's row: `[N, ...]` to `[E, ...]`."""
        return ops.gather_rows(values, self.edge_index[1], self.incoming)

    def reversed(self, values: Tensor) -> Tensor:
        """Give each edge its other direction's row."""
        return values.index_select(0, self.reverse)

    def aggregate_to_targets(self, messages: Tensor) -> Tensor:
        """Sum edge rows at their target node: `[E, ...]` to `[N, ...]`."""
        return ops.scatter_rows(messages, self.edge_index[1], self.num_nodes, self.incoming)

    def sum_neighbours(self, values: Tensor, weight: Tensor | None = None) -> Tensor:
        """Weighted sum of the rows of nodes at the sources of a node's edges: `[N, d]` to `[N, d]`."""
        return ops.sum_neighbours(values, self.edges, weight)


def _all_of(rows: Tensor) -> Tensor:
    return torch.ones_like(rows, dtype=torch.bool)
