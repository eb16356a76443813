"""The batch every model reads, in its exact and its padded layout."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from outland.graphs.packed import PackedGraphs
from outland.graphs.wires import Span, Wires, gather, scatter, weighted_sum


@dataclass(frozen=True)
class GraphBatch:
    """`B` graphs as one: node rows, edge rows, and the graph each belongs to.

    The *exact* layout holds these rows and no others; its masks are None. The *padded* layout is filled up to
    a fixed shape, so that a step can be captured and replayed: padding nodes and edges belong to graph `B`,
    padding edges join padding nodes, and the masks say which rows are real. Padding never changes a result.

    Args:
        x: node features `[N, F]`.
        edge_index: source and target node of each edge `[2, E]`.
        node_graph, edge_graph: graph of each node `[N]` and edge `[E]`.
        reverse: row of each edge's other direction `[E]`; itself if it has none.
        node_count, edge_count: real nodes and edges of each graph `[B]`.
        y: labels `[B]` or `[B, T]`.
        index: place of each graph in the set it came from `[B]`.
        node_mask, edge_mask, graph_mask: which rows are real; None where all are.
        incoming, outgoing: the edges by target and by source; None where nobody has grouped them.
        members: the nodes by graph, padding last.
    """

    x: Tensor
    edge_index: Tensor
    node_graph: Tensor
    edge_graph: Tensor
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
        return _all_of(self.node_graph) if self.node_mask is None else self.node_mask

    @property
    def real_edges(self) -> Tensor:
        """Which edge rows are no padding `[E]`."""
        return _all_of(self.edge_graph) if self.edge_mask is None else self.edge_mask

    @property
    def first_direction(self) -> Tensor:
        """Which edge rows come before their other direction, or have none: one row for each undirected edge `[E]`."""
        return torch.arange(self.num_edges, device=self.x.device) <= self.reverse

    def replace(self, **changes: Any) -> "GraphBatch":
        """A copy with some fields changed; edges or nodes that change are no longer grouped."""
        if "edge_index" in changes:
            changes = {"incoming": None, "outgoing": None, **changes}
        if "node_graph" in changes:
            changes = {"members": None, **changes}
        return replace(self, **changes)

    def cut(self, graphs: Span, nodes: Span, edges: Span) -> "GraphBatch":
        """The graphs, nodes and edges in these spans of rows, which name only each other."""
        (g, g2), (n, n2), (e, e2) = graphs, nodes, edges
        assert self.incoming is not None
        assert self.outgoing is not None
        assert self.members is not None
        return GraphBatch(
            x=self.x[n:n2],
            edge_index=self.edge_index[:, e:e2],
            node_graph=self.node_graph[n:n2],
            edge_graph=self.edge_graph[e:e2],
            reverse=self.reverse[e:e2],
            node_count=self.node_count[g:g2],
            edge_count=self.edge_count[g:g2],
            y=self.y[g:g2],
            index=self.index[g:g2],
            edge_attr=None if self.edge_attr is None else self.edge_attr[e:e2],
            environment=None if self.environment is None else self.environment[g:g2],
            incoming=self.incoming.cut(nodes, edges),
            outgoing=self.outgoing.cut(nodes, edges),
            members=Wires(self.members.pointers[g : g2 + 1] - n, None, self.node_graph[n:n2]),
        )

    def _sum(self, values: Tensor, owner: Tensor) -> Tensor:
        rows = self.num_graphs + (self.graph_mask is not None)
        total = values.new_zeros(rows, *values.shape[1:]).index_add_(0, owner, values)
        return total[: self.num_graphs]

    def sum_nodes(self, values: Tensor) -> Tensor:
        """Sum node rows by graph: `[N, ...]` to `[B, ...]`."""
        if self.members is not None and _wide(values):
            return scatter(values, self.node_graph, self.members)[: self.num_graphs]
        return self._sum(values, self.node_graph)

    def sum_edges(self, values: Tensor) -> Tensor:
        """Sum edge rows by graph: `[E, ...]` to `[B, ...]`."""
        return self._sum(values, self.edge_graph)

    def mean_nodes(self, values: Tensor) -> Tensor:
        """Mean of node rows by graph; 0 for a graph without nodes."""
        return self.sum_nodes(values) / _column(self.node_count.clamp(min=1), values)

    def mean_edges(self, values: Tensor) -> Tensor:
        """Mean of edge rows by graph; 0 for a graph without edges."""
        return self.sum_edges(values) / _column(self.edge_count.clamp(min=1), values)

    def mean_graphs(self, values: Tensor) -> Tensor:
        """Mean over the real graphs: `[B, ...]` to `[...]`."""
        if self.graph_mask is None:
            return values.mean(0)
        real = _column(self.graph_mask, values)
        return torch.where(real, values, 0).sum(0) / self.graph_mask.sum().clamp(min=1)

    def spread(self, values: Tensor) -> Tensor:
        """Give each node its graph's row: `[B, ...]` to `[N, ...]`; padding nodes get 0."""
        if self.graph_mask is not None:
            values = torch.cat([values, values.new_zeros(1, *values.shape[1:])])
        return values.index_select(0, self.node_graph)

    # Gathers go by `index_select`: the gradient of plain indexing is summed by atomics on a CPU with several threads,
    # in an order that changes from run to run.

    def at_source(self, values: Tensor) -> Tensor:
        """Give each edge its source node's row: `[N, ...]` to `[E, ...]`."""
        if self.outgoing is not None and _wide(values):
            return gather(values, self.edge_index[0], self.outgoing)
        return values.index_select(0, self.edge_index[0])

    def at_target(self, values: Tensor) -> Tensor:
        """Give each edge its target node's row: `[N, ...]` to `[E, ...]`."""
        if self.incoming is not None and _wide(values):
            return gather(values, self.edge_index[1], self.incoming)
        return values.index_select(0, self.edge_index[1])

    def reversed(self, values: Tensor) -> Tensor:
        """Give each edge its other direction's row."""
        return values.index_select(0, self.reverse)

    def sum_neighbours(self, values: Tensor, weight: Tensor | None = None) -> Tensor:
        """Weighted sum of the rows of nodes at the sources of a node's edges: `[N, d]` to `[N, d]`."""
        if self.incoming is not None and self.outgoing is not None:
            return weighted_sum(values, weight, self.incoming, self.outgoing)
        messages = self.at_source(values)
        return self.collect(messages if weight is None else messages * weight[:, None])

    def collect(self, messages: Tensor) -> Tensor:
        """Sum edge rows at their target node: `[E, ...]` to `[N, ...]`."""
        if self.incoming is not None and _wide(messages):
            return scatter(messages, self.edge_index[1], self.incoming)
        rows = messages.new_zeros(self.num_nodes, *messages.shape[1:])
        return rows.index_add_(0, self.edge_index[1], messages)


@dataclass(frozen=True)
class Shape:
    """How many rows a padded batch has."""

    graphs: int
    nodes: int
    edges: int


class Gatherer:
    """Cuts batches out of a set of graphs by index, on the device the set lives on, with no loop over graphs."""

    def __init__(self, graphs: PackedGraphs) -> None:
        self.graphs = graphs
        self.node_counts, self.edge_counts, self.node_offsets, self.edge_offsets = (
            tensor.to(graphs.device)
            for tensor in (graphs.node_counts, graphs.edge_counts, graphs.node_offsets, graphs.edge_offsets)
        )
        self._in_order, self._two_way = graphs.edge_habits

    def exact(self, index: Tensor, nodes: int, edges: int) -> GraphBatch:
        """The graphs at `index` (on the device), which have so many nodes and edges."""
        return self._gather(index, Shape(len(index), nodes, edges), padded=False)

    def several(self, index: Tensor, shapes: list[Shape]) -> Iterator[GraphBatch]:
        """The graphs at `index` as exact batches of these shapes, one after another.

        They are gathered as one, numbered within each, and cut: most of the cost of a small batch is that it has to be
        asked for at all.
        """
        totals = torch.tensor([[0, 0, 0], *((shape.graphs, shape.nodes, shape.edges) for shape in shapes)])
        ends = totals.cumsum(0)
        firsts = ends[:-1].repeat_interleave(totals[1:, 0], dim=0).to(self.graphs.device)
        whole = self._gather(index, Shape(*ends[-1].tolist()), padded=False, firsts=firsts)
        for (g, n, e), (g2, n2, e2) in pairwise(ends.tolist()):
            yield whole.cut((g, g2), (n, n2), (e, e2))

    def padded(self, index: Tensor, shape: Shape) -> GraphBatch:
        """The graphs at `index`, filled up to `shape`, which must leave room for one padding node.

        `index` may have its own padding: a place below 0 is no graph.
        """
        if len(index) < shape.graphs:
            index = torch.cat([index, index.new_full((shape.graphs - len(index),), -1)])
        return self._gather(index, shape, padded=True)

    def _gather(self, index: Tensor, shape: Shape, padded: bool, firsts: Tensor | None = None) -> GraphBatch:
        """The graphs at `index`; with `firsts` `[G, 3]` every graph counts graphs, nodes and edges from there."""
        graphs = self.graphs
        graph_mask = index >= 0 if padded else None
        index = index.clamp(min=0) if padded else index
        nodes, node_graph, node_start, node_count = _rows(
            self.node_counts[index], self.node_offsets[index], shape.nodes, graph_mask
        )
        edges, edge_graph, edge_start, edge_count = _rows(
            self.edge_counts[index], self.edge_offsets[index], shape.edges, graph_mask
        )
        if firsts is not None:
            first_graph, first_node, first_edge = firsts.T
            node_start, edge_start = node_start - first_node, edge_start - first_edge
        edge_index = graphs.edge_index.index_select(1, edges) + node_start.index_select(0, edge_graph)
        reverse = graphs.reverse.index_select(0, edges) + edge_start.index_select(0, edge_graph)
        node_mask = edge_mask = None
        if padded:
            node_mask, edge_mask = node_graph < shape.graphs, edge_graph < shape.graphs
            edge_index = torch.where(edge_mask, edge_index, shape.nodes - 1)
            reverse = torch.where(edge_mask, reverse, torch.arange(shape.edges, device=graphs.device))
        if self._in_order and self._two_way:
            incoming, outgoing = self._counted_wires(nodes, node_mask, edge_index, reverse)
        else:
            bases = None if firsts is None else firsts[:, 1:].index_select(0, edge_graph)
            incoming, outgoing = self._sorted_wires(edge_index, reverse, shape.nodes, bases)
        members = torch.cat([node_count.new_zeros(1), node_count.cumsum(0)])
        if padded:
            members = torch.cat([members, members.new_full((1,), shape.nodes)])
        if firsts is not None:
            node_graph, edge_graph = (g - first_graph.index_select(0, g) for g in (node_graph, edge_graph))
        return GraphBatch(
            x=graphs.x.index_select(0, nodes),
            edge_index=edge_index,
            node_graph=node_graph,
            edge_graph=edge_graph,
            reverse=reverse,
            node_count=node_count,
            edge_count=edge_count,
            y=graphs.y.index_select(0, index),
            index=index,
            edge_attr=None if graphs.edge_attr is None else graphs.edge_attr.index_select(0, edges),
            environment=None if graphs.environment is None else graphs.environment.index_select(0, index),
            node_mask=node_mask,
            edge_mask=edge_mask,
            graph_mask=graph_mask,
            incoming=incoming,
            outgoing=outgoing,
            members=Wires(members, None, node_graph),
        )

    def _counted_wires(
        self, nodes: Tensor, node_mask: Tensor | None, edge_index: Tensor, reverse: Tensor
    ) -> tuple[Wires, Wires]:
        """The edges by target and by source, where they stand by source and have both directions: nothing to sort.

        The other directions of the edges that leave a node are those that reach it. The last node has the padding.
        """
        degrees = self.graphs.out_degrees.index_select(0, nodes).long()
        if node_mask is not None:
            degrees = degrees * node_mask
        ends = degrees.cumsum(0)
        pointers = torch.cat([ends.new_zeros(1), ends[:-1], ends.new_full((min(len(ends), 1),), edge_index.shape[1])])
        return Wires(pointers, reverse, edge_index[1]), Wires(pointers, None, edge_index[1])

    def _sorted_wires(
        self, edge_index: Tensor, reverse: Tensor, num_nodes: int, bases: Tensor | None
    ) -> tuple[Wires, Wires]:
        """The edges by target and by source; `bases` `[E, 2]` are the node and edge that each edge counts from."""
        source, target = edge_index
        outgoing = Wires.grouped(source, target, num_nodes, bases)
        if self._two_way and outgoing.edges is not None:
            own = outgoing.edges if bases is None else outgoing.edges + bases[:, 1]  # in the rows of all batches
            return Wires(outgoing.pointers, reverse.index_select(0, own), outgoing.nodes), outgoing
        return Wires.grouped(target, source, num_nodes, bases), outgoing


def _rows(
    counts: Tensor, offsets: Tensor, total: int, graph_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows to take from the set, their graph in the batch, each graph's first row there, and its real count.

    Padding rows take row 0 of the set and belong to graph `B`, whose first row is 0.
    """
    if graph_mask is not None:
        counts = counts * graph_mask
    ends = counts.cumsum(0)
    starts = ends - counts
    row = torch.arange(total, device=counts.device)
    if graph_mask is None:
        owner = torch.arange(len(counts), device=counts.device).repeat_interleave(counts, output_size=total)
        return row + (offsets - starts).index_select(0, owner), owner, starts, counts
    owner = torch.searchsorted(ends, row, right=True)
    none = counts.new_zeros(1)
    shift = torch.cat([offsets - starts, none]).index_select(0, owner)
    source = torch.where(owner < len(counts), row + shift, 0)
    return source, owner, torch.cat([starts, none]), counts


def _wide(values: Tensor) -> bool:
    """Whether a sparse product pays: for rows of several real numbers."""
    return values.dim() == 2 and values.shape[1] >= 4 and values.is_floating_point()


def _all_of(rows: Tensor) -> Tensor:
    return torch.ones_like(rows, dtype=torch.bool)


def _column(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(-1, *[1] * (like.dim() - 1))
