"""Cuts batches out of a set of graphs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from outland import kernels
from outland.graphs.batch import GraphBatch
from outland.graphs.packed import PackedGraphs
from outland.graphs.wires import Wires

if TYPE_CHECKING:
    from outland.kernels.cut import Source


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
        self._on_cpu = graphs.device.type == "cpu"
        self._wired = self._on_cpu or kernels.installed()
        self._ordered = all(graphs.edge_habits)  # edges stand by source, and each has its other direction

    def exact(self, index: Tensor, nodes: int, edges: int) -> GraphBatch:
        """The graphs at `index` (on the device), which have so many nodes and edges."""
        return self._gather(index, Shape(len(index), nodes, edges), padded=False)

    def several(self, index: Tensor, shapes: list[Shape]) -> Iterator[GraphBatch]:
        """The graphs at `index` as exact batches of these shapes, one after another.

        They are gathered as one, numbered within each, and cut: most of the cost of a small batch is that it has to be
        asked for at all.
        """
        if not self._on_cpu:
            for piece, shape in zip(index.split([shape.graphs for shape in shapes]), shapes, strict=True):
                yield self.exact(piece, shape.nodes, shape.edges)
            return
        sizes = [(shape.graphs, shape.nodes, shape.edges) for shape in shapes]
        ends = torch.tensor([(0, 0, 0), *sizes]).cumsum(0)
        firsts = ends[:-1].repeat_interleave(torch.tensor([shape.graphs for shape in shapes]), dim=0)
        whole = self._gather(index, Shape(*ends[-1].tolist()), padded=False, firsts=firsts)
        yield from _apart(whole, *(list(column) for column in zip(*sizes, strict=True)))

    def padded(self, index: Tensor, shape: Shape) -> GraphBatch:
        """The graphs at `index`, filled up to `shape`, which must leave room for one padding node.

        `index` may have its own padding: a place below 0 is no graph.
        """
        if len(index) < shape.graphs:
            index = torch.cat([index, index.new_full((shape.graphs - len(index),), -1)])
        if not self._on_cpu and self._wired:
            return self.cut(index, shape)
        return self._gather(index, shape, padded=True)

    def cut(self, index: Tensor, shape: Shape) -> GraphBatch:
        """What `padded` does, by the GPU's kernels."""
        from outland.kernels.cut import cut  # needs Triton

        graphs, fields = self.graphs, cut(self._source, index, shape.nodes, shape.edges)
        by_graph, outgoing, incoming = (fields.pop(name) for name in ("by_graph", "outgoing", "incoming"))
        return GraphBatch(
            **fields,
            members=Wires(by_graph[0], None, fields["node_batch"]),
            edge_members=Wires(by_graph[1], None, fields["edge_batch"]),
            y=graphs.y.index_select(0, fields["index"]),
            environment=None if graphs.environment is None else graphs.environment.index_select(0, fields["index"]),
            incoming=Wires(*incoming),
            outgoing=Wires(*outgoing),
        )

    @cached_property
    def _source(self) -> "Source":
        from outland.kernels.cut import Source  # needs Triton

        graphs, ordered = self.graphs, self._ordered
        owner = torch.arange(len(graphs), device=graphs.device).repeat_interleave(self.edge_counts)
        ends = graphs.edge_index.long() + self.node_offsets[owner]
        counts = torch.stack([torch.bincount(end, minlength=len(graphs.x)) for end in ends])
        orders = None
        if not ordered:
            orders = torch.stack([end.argsort(stable=True) for end in ends]) - self.edge_offsets[owner]
        return Source(
            graphs.x.contiguous(),
            graphs.edge_index.contiguous(),
            graphs.reverse,
            graphs.edge_attr,
            self.node_counts,
            self.edge_counts,
            self.node_offsets,
            self.edge_offsets,
            counts.cumsum(1) - counts,
            orders,
        )

    def _gather(self, index: Tensor, shape: Shape, padded: bool, firsts: Tensor | None = None) -> GraphBatch:
        """The graphs at `index`; with `firsts` `[G, 3]` every graph counts graphs, nodes and edges from there."""
        graphs = self.graphs
        graph_mask = index >= 0 if padded else None
        index = index.clamp(min=0) if padded else index
        counts, offsets = self.node_counts.index_select(0, index), self.node_offsets.index_select(0, index)
        nodes, node_batch, node_start, node_count = _rows(counts, offsets, shape.nodes, graph_mask)
        counts, offsets = self.edge_counts.index_select(0, index), self.edge_offsets.index_select(0, index)
        edges, edge_batch, edge_start, edge_count = _rows(counts, offsets, shape.edges, graph_mask)
        if firsts is not None:
            node_start, edge_start = node_start - firsts[:, 1], edge_start - firsts[:, 2]
        shift = node_start.index_select(0, edge_batch)
        # Row by row: a selection along the second dimension is several times slower.
        edge_index = shift.new_empty(2, len(shift))
        for row, ends in zip(edge_index, graphs.edge_index, strict=True):
            torch.add(ends.index_select(0, edges), shift, out=row)
        reverse = edge_start.index_select(0, edge_batch).add_(graphs.reverse.index_select(0, edges))
        node_mask = edge_mask = None
        if padded:
            node_mask, edge_mask = node_batch < shape.graphs, edge_batch < shape.graphs
            edge_index = torch.where(edge_mask, edge_index, shape.nodes - 1)
            reverse = torch.where(edge_mask, reverse, torch.arange(shape.edges, device=graphs.device))
        wires = {}
        if self._wired:
            degrees = graphs.out_degrees.index_select(0, nodes).long()
            bases = None if firsts is None or self._ordered else firsts.index_select(0, edge_batch)
            wires = self._wires(degrees if node_mask is None else degrees * node_mask, edge_index, reverse, bases)
        if firsts is not None:
            own = torch.arange(len(index), device=index.device) - firsts[:, 0]
            node_batch, edge_batch = own.index_select(0, node_batch), own.index_select(0, edge_batch)
        if self._wired:
            wires["members"] = _members(node_count, node_batch, shape.nodes if padded else None)
            if not self._on_cpu:
                wires["edge_members"] = _members(edge_count, edge_batch, shape.edges if padded else None)
        return GraphBatch(
            x=graphs.x.index_select(0, nodes),
            edge_index=edge_index,
            node_batch=node_batch,
            edge_batch=edge_batch,
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
            **wires,
        )

    def _wires(self, degrees: Tensor, edge_index: Tensor, reverse: Tensor, bases: Tensor | None) -> dict[str, Wires]:
        """The edges by target and by source; `bases` `[E, 3]` are the graph, node and edge each counts from."""
        source, target = edge_index
        if not self._ordered:
            outgoing = Wires.grouped(source, target, len(degrees), bases)
            return {"incoming": Wires.grouped(target, source, len(degrees), bases), "outgoing": outgoing}
        # Edges stand by source, so there is nothing to sort; their other directions stand by target.
        ends = degrees.cumsum(0)
        last = ends.new_full((min(len(ends), 1),), len(source))  # the last node has the padding
        pointers = torch.cat([ends.new_zeros(1), ends[:-1], last])
        return {"incoming": Wires(pointers, reverse, target), "outgoing": Wires(pointers, None, target)}


def _apart(whole: GraphBatch, graphs: list[int], nodes: list[int], edges: list[int]) -> Iterator[GraphBatch]:
    """Batches that were gathered as one, each with so many graphs, nodes and edges."""
    assert whole.incoming is not None
    assert whole.outgoing is not None
    assert whole.members is not None
    columns = {
        "x": whole.x.split(nodes),
        "edge_index": whole.edge_index.split(edges, dim=1),
        "node_batch": whole.node_batch.split(nodes),
        "edge_batch": whole.edge_batch.split(edges),
        "reverse": whole.reverse.split(edges),
        **{name: getattr(whole, name).split(graphs) for name in ("node_count", "edge_count", "y", "index")},
        **dict(zip(("incoming", "outgoing"), Wires.apart(nodes, edges, whole.incoming, whole.outgoing), strict=True)),
        "members": next(Wires.apart(graphs, nodes, whole.members)),
    }
    if whole.edge_attr is not None:
        columns["edge_attr"] = whole.edge_attr.split(edges)
    if whole.environment is not None:
        columns["environment"] = whole.environment.split(graphs)
    for row in zip(*columns.values(), strict=True):
        yield GraphBatch(**dict(zip(columns, row, strict=True)))


def _members(counts: Tensor, owner: Tensor, padded_to: int | None) -> Wires:
    """The nodes by graph; padding, if there is any, is the last group."""
    ends = [counts.new_zeros(1), counts.cumsum(0)]
    if padded_to is not None:
        ends.append(counts.new_full((1,), padded_to))
    return Wires(torch.cat(ends), None, owner)


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
        return (offsets - starts).index_select(0, owner).add_(row), owner, starts, counts
    owner = torch.searchsorted(ends, row, right=True)
    none = counts.new_zeros(1)
    shift = torch.cat([offsets - starts, none]).index_select(0, owner)
    source = torch.where(owner < len(counts), row + shift, 0)
    return source, owner, torch.cat([starts, none]), counts
