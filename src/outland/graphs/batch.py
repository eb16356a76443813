"""The batch every model reads, in its exact and its padded layout."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from outland import kernels
from outland.graphs.wires import Wires, gather, heard, pool, scatter, weighted_sum


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
        index: place of each graph in the set it came from `[B]`.
        node_mask, edge_mask, graph_mask: which rows are real; None where all are.
        incoming, outgoing: the edges by target and by source; None where nobody has grouped them.
        members, edge_members: the nodes and the edges by graph; padding is the last group, or in none.
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
    incoming: Wires | None = None
    outgoing: Wires | None = None
    members: Wires | None = None
    edge_members: Wires | None = None

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
    def first_direction(self) -> Tensor:
        """Which edge rows come before their other direction, or have none: one row for each undirected edge `[E]`."""
        return torch.arange(self.num_edges, device=self.x.device) <= self.reverse

    def replace(self, **changes: Any) -> "GraphBatch":
        """A copy with some fields changed; edges or nodes that change are no longer grouped."""
        if "edge_index" in changes:
            changes = {"incoming": None, "outgoing": None, **changes}
        if "node_batch" in changes:
            changes = {"members": None, **changes}
        if "edge_batch" in changes:
            changes = {"edge_members": None, **changes}
        return replace(self, **changes)

    def _sum(self, values: Tensor, owner: Tensor, members: Wires | None) -> Tensor:
        if members is not None and _grouped(values):
            return pool(values, owner, members, self.num_graphs)
        rows = self.num_graphs + (self.graph_mask is not None)
        total = values.new_zeros(rows, *values.shape[1:]).index_add_(0, owner, values)
        return total[: self.num_graphs]

    def _mean(self, values: Tensor, owner: Tensor, members: Wires | None, count: Tensor) -> Tensor:
        if members is not None and kernels.fits(values):
            return pool(values, owner, members, self.num_graphs, mean=True)
        return self._sum(values, owner, members) / _column(count.clamp(min=1), values)

    def sum_nodes(self, values: Tensor) -> Tensor:
        """Sum node rows by graph: `[N, ...]` to `[B, ...]`."""
        return self._sum(values, self.node_batch, self.members)

    def sum_edges(self, values: Tensor) -> Tensor:
        """Sum edge rows by graph: `[E, ...]` to `[B, ...]`."""
        return self._sum(values, self.edge_batch, self.edge_members)

    def mean_nodes(self, values: Tensor) -> Tensor:
        """Mean of node rows by graph; 0 for a graph without nodes."""
        return self._mean(values, self.node_batch, self.members, self.node_count)

    def mean_edges(self, values: Tensor) -> Tensor:
        """Mean of edge rows by graph; 0 for a graph without edges."""
        return self._mean(values, self.edge_batch, self.edge_members, self.edge_count)

    def mean_graphs(self, values: Tensor) -> Tensor:
        """Mean over the real graphs: `[B, ...]` to `[...]`."""
        if self.graph_mask is None:
            return values.mean(0)
        if values.dim() == 1 and kernels.fits(values):
            from outland.kernels.mean import masked_mean, takes  # needs Triton

            if takes(values):
                return masked_mean(values, self.graph_mask)
        real = _column(self.graph_mask, values)
        return torch.where(real, values, 0).sum(0) / self.graph_mask.sum().clamp(min=1)

    def spread(self, values: Tensor) -> Tensor:
        """Give each node its graph's row: `[B, ...]` to `[N, ...]`; padding nodes get 0."""
        if self.graph_mask is not None:
            values = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
        return values.index_select(0, self.node_batch)

    # Gathers go by `index_select`: the gradient of plain indexing is summed by atomics on a CPU with several threads,
    # in an order that changes from run to run.

    def at_source(self, values: Tensor) -> Tensor:
        """Give each edge its source node's row: `[N, ...]` to `[E, ...]`."""
        if self.outgoing is not None and _grouped(values):
            return gather(values, self.edge_index[0], self.outgoing)
        return values.index_select(0, self.edge_index[0])

    def at_target(self, values: Tensor) -> Tensor:
        """Give each edge its target node's row: `[N, ...]` to `[E, ...]`."""
        if self.incoming is not None and _grouped(values):
            return gather(values, self.edge_index[1], self.incoming)
        return values.index_select(0, self.edge_index[1])

    def reversed(self, values: Tensor) -> Tensor:
        """Give each edge its other direction's row."""
        return values.index_select(0, self.reverse)

    def sum_neighbours(self, values: Tensor, weight: Tensor | None = None) -> Tensor:
        """Weighted sum of the rows of nodes at the sources of a node's edges: `[N, d]` to `[N, d]`."""
        if self.incoming is not None and self.outgoing is not None and _grouped(values):
            return weighted_sum(values, weight, self.incoming, self.outgoing)
        messages = self.at_source(values)
        return self.collect(messages if weight is None else messages * weight[:, None])

    def hear(
        self,
        values: Tensor,
        eps: Tensor,
        weight: Tensor | None = None,
        edge_state: Tensor | None = None,
        nonnegative: bool = False,
    ) -> Tensor:
        r"""What nodes hear in GIN, :math:`(1+\epsilon)\,x_i + \sum_{j \to i} w_{ji}\,\mathrm{ReLU}(x_j + e_{ji})`.

        Args:
            values: the node rows x `[N, d]`.
            eps: one number.
            weight: of each edge `[E]`; None is 1.
            edge_state: the edge rows e `[E, d]`; None is 0.
            nonnegative: no value is below 0.
        """
        if self.incoming is not None and self.outgoing is not None and kernels.fits(values):
            return heard(values, eps, weight, edge_state, self.incoming, self.outgoing)
        if edge_state is None:  # a message is its source's, so none is written down
            return (1 + eps) * values + self.sum_neighbours(values if nonnegative else values.relu(), weight)
        messages = (self.at_source(values) + edge_state).relu()
        return (1 + eps) * values + self.collect(messages if weight is None else messages * weight[:, None])

    def collect(self, messages: Tensor) -> Tensor:
        """Sum edge rows at their target node: `[E, ...]` to `[N, ...]`."""
        if self.incoming is not None and _grouped(messages):
            return scatter(messages, self.edge_index[1], self.incoming)
        rows = messages.new_zeros(self.num_nodes, *messages.shape[1:])
        return rows.index_add_(0, self.edge_index[1], messages)


def _grouped(values: Tensor) -> bool:
    """Whether sums by groups pay: on a GPU where there are kernels for them, else for rows of several real numbers."""
    if values.is_cuda:
        return kernels.fits(values)
    return values.dim() == 2 and values.shape[1] >= 4 and values.is_floating_point()


def _all_of(rows: Tensor) -> Tensor:
    return torch.ones_like(rows, dtype=torch.bool)


def _column(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (like.dim() - 1))
