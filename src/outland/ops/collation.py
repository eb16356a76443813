"""Batches collated from a packed set of graphs by index, on the device of the set, with no loop over graphs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from outland.ops.csr import EdgeCSR, split_ptr
from outland.ops.dispatch import has_triton, op

Fields = dict[str, Any]


class BatchShape(NamedTuple):
    """How many rows a batch has."""

    graphs: int
    nodes: int
    edges: int


@dataclass(frozen=True)
class CollateSource:
    """A packed set of G graphs with N nodes and E edges, all on one device."""

    x: Tensor  # node rows [N, F]
    edge_index: Tensor  # source and target of each edge, counted within each graph [2, E]
    reverse: Tensor  # position of each edge's other direction within its graph [E]
    edge_attr: Tensor | None  # edge rows [E, F_e], if there are any
    y: Tensor  # a row for each graph
    environment: Tensor | None  # likewise
    node_counts: Tensor  # of each graph [G], as the next three
    edge_counts: Tensor
    node_offsets: Tensor
    edge_offsets: Tensor
    out_degrees: Tensor  # how many edges leave each node [N]
    in_order: bool  # whether edges stand by source and each has its other direction, so that nothing need be sorted
    descriptors: Tensor | None = None  # a row for each graph [G, D], if there are any

    @cached_property
    def grouped(self) -> tuple[Tensor, Tensor | None]:
        """For the kernel: where each node's edges begin in the set, by source and by target `[2, N]`, and `perm`.

        That is the position within its graph of each edge, by source and by target `[2, E]`; None if `in_order`.
        """
        graph = torch.arange(len(self.node_counts), device=self.x.device).repeat_interleave(self.edge_counts)
        ends = self.edge_index.long() + self.node_offsets[graph]
        degrees = torch.stack([torch.bincount(end, minlength=len(self.x)) for end in ends])
        perm = None
        if not self.in_order:
            perm = torch.stack([end.argsort(stable=True) for end in ends]) - self.edge_offsets[graph]
        return degrees.cumsum(1) - degrees, perm

    @cached_property
    def on_cpu(self) -> bool:
        """Whether the set is on a CPU."""
        return self.x.device.type == "cpu"


@op("outland.ops.triton.collation:collate_padded", dtypes=(torch.int64,))
def collate_padded(index: Tensor, source: CollateSource, nodes: int, edges: int) -> Fields:
    """The graphs at `index` `[B]`, where -1 is none, filled up to so many nodes and edges: fields of a `GraphBatch`."""
    return _collate(index, source, BatchShape(len(index), nodes, edges), padded=True)


def collate(index: Tensor, source: CollateSource, nodes: int, edges: int) -> Fields:
    """The graphs at `index` `[B]`, which have so many nodes and edges: fields of a `GraphBatch`."""
    return _collate(index, source, BatchShape(len(index), nodes, edges), padded=False)


def collate_each(index: Tensor, source: CollateSource, shapes: list[BatchShape]) -> Iterator[Fields]:
    """The graphs at `index` as batches of these shapes, one after another.

    On a CPU they are collated as one, numbered within each, and split: most of the cost of a small batch is the calls.
    """
    if not source.on_cpu:
        for piece, shape in zip(index.split([shape.graphs for shape in shapes]), shapes, strict=True):
            yield collate(piece, source, shape.nodes, shape.edges)
        return
    ends = torch.tensor([(0, 0, 0), *shapes]).cumsum(0)
    bases = ends[:-1].repeat_interleave(torch.tensor([shape.graphs for shape in shapes]), dim=0)
    whole = _collate(index, source, BatchShape(*ends[-1].tolist()), padded=False, bases=bases)
    yield from _split(whole, *(list(column) for column in zip(*shapes, strict=True)))


def _collate(
    index: Tensor, source: CollateSource, shape: BatchShape, padded: bool, bases: Tensor | None = None
) -> Fields:
    """The graphs at `index`; with `bases` `[B, 3]` each counts graphs, nodes and edges from there."""
    graph_mask = index >= 0 if padded else None
    index = index.clamp(min=0) if padded else index
    counts, offsets = source.node_counts.index_select(0, index), source.node_offsets.index_select(0, index)
    nodes, node_batch, node_start, node_count = _rows(counts, offsets, shape.nodes, graph_mask)
    counts, offsets = source.edge_counts.index_select(0, index), source.edge_offsets.index_select(0, index)
    edges, edge_batch, edge_start, edge_count = _rows(counts, offsets, shape.edges, graph_mask)
    if bases is not None:
        node_start, edge_start = node_start - bases[:, 1], edge_start - bases[:, 2]
    edge_index, reverse = _relabel(source, edges, edge_batch, node_start, edge_start)
    fields: Fields = {"node_count": node_count, "edge_count": edge_count, **graph_rows(index, source)}
    degrees = source.out_degrees.index_select(0, nodes)
    if graph_mask is not None:
        node_mask, edge_mask = node_batch < shape.graphs, edge_batch < shape.graphs
        edge_index = torch.where(edge_mask, edge_index, shape.nodes - 1)
        reverse = torch.where(edge_mask, reverse, torch.arange(shape.edges, device=index.device))
        degrees = degrees * node_mask
        fields |= {"node_mask": node_mask, "edge_mask": edge_mask, "graph_mask": graph_mask}
    if source.on_cpu or has_triton():
        edge_bases = None if bases is None or source.in_order else bases.index_select(0, edge_batch)
        fields["incoming"], fields["outgoing"] = _group(source, degrees, edge_index, reverse, edge_bases)
        fields["node_ptr"] = _ptr(node_count, shape.nodes if padded else None)
        fields["edge_ptr"] = None if source.on_cpu else _ptr(edge_count, shape.edges if padded else None)
    if bases is not None:
        graph = torch.arange(len(index), device=index.device) - bases[:, 0]
        node_batch, edge_batch = graph.index_select(0, node_batch), graph.index_select(0, edge_batch)
    fields |= {"edge_index": edge_index, "node_batch": node_batch, "edge_batch": edge_batch, "reverse": reverse}
    edge_attr = None if source.edge_attr is None else source.edge_attr.index_select(0, edges)
    return {"x": source.x.index_select(0, nodes), "edge_attr": edge_attr, **fields}


def _relabel(
    source: CollateSource, edges: Tensor, edge_batch: Tensor, node_start: Tensor, edge_start: Tensor
) -> tuple[Tensor, Tensor]:
    """Ends and other direction of these edges of the set, counted in the batch: `[2, E]` and `[E]`."""
    shift = node_start.index_select(0, edge_batch)
    # Row by row: a selection along the second dimension is several times slower.
    edge_index = shift.new_empty(2, len(shift))
    for row, ends in zip(edge_index, source.edge_index, strict=True):
        torch.add(ends.index_select(0, edges), shift, out=row)
    return edge_index, edge_start.index_select(0, edge_batch).add_(source.reverse.index_select(0, edges))


def graph_rows(index: Tensor, source: CollateSource) -> Fields:
    """The fields with one row for each graph at `index`."""
    rows = {name: getattr(source, name) for name in ("y", "environment", "descriptors")}
    return {name: None if row is None else row.index_select(0, index) for name, row in rows.items()} | {"index": index}


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
        graph = torch.arange(len(counts), device=counts.device).repeat_interleave(counts, output_size=total)
        return (offsets - starts).index_select(0, graph).add_(row), graph, starts, counts
    graph = torch.searchsorted(ends, row, right=True)
    zero = counts.new_zeros(1)
    shift = torch.cat([offsets - starts, zero]).index_select(0, graph)
    rows = torch.where(graph < len(counts), row + shift, 0)
    return rows, graph, torch.cat([starts, zero]), counts


def _group(
    source: CollateSource, degrees: Tensor, edge_index: Tensor, reverse: Tensor, bases: Tensor | None
) -> tuple[EdgeCSR, EdgeCSR]:
    """The edges by target and by source; `bases` `[E, 3]` are the graph, node and edge each counts from."""
    row, col = edge_index
    if not source.in_order:
        outgoing = EdgeCSR.from_edges(row, col, len(degrees), bases)
        return EdgeCSR.from_edges(col, row, len(degrees), bases), outgoing
    # Edges stand by source, so there is nothing to sort; their other directions stand by target.
    ends = degrees.cumsum(0, dtype=torch.long)
    last = ends.new_full((min(len(ends), 1),), len(row))  # the last node has the padding
    rowptr = torch.cat([ends.new_zeros(1), ends[:-1], last])
    return EdgeCSR(rowptr, reverse, col), EdgeCSR(rowptr, None, col)


def _ptr(counts: Tensor, padded_to: int | None) -> Tensor:
    """Where each graph's rows begin; padding, if there is any, is one more segment."""
    ends = [counts.new_zeros(1), counts.cumsum(0)]
    if padded_to is not None:
        ends.append(counts.new_full((1,), padded_to))
    return torch.cat(ends)


def _split(whole: Fields, graphs: list[int], nodes: list[int], edges: list[int]) -> Iterator[Fields]:
    """The fields of batches that were collated as one, each with so many graphs, nodes and edges."""
    sizes = dict.fromkeys(("x", "node_batch"), nodes)
    sizes |= dict.fromkeys(("edge_batch", "reverse", "edge_attr"), edges)
    sizes |= dict.fromkeys(("node_count", "edge_count", "y", "index", "environment", "descriptors"), graphs)
    columns = {name: whole[name].split(size) for name, size in sizes.items() if whole[name] is not None}
    columns["edge_index"] = whole["edge_index"].split(edges, dim=1)
    columns["node_ptr"] = split_ptr(whole["node_ptr"], graphs, nodes)
    columns["incoming"], columns["outgoing"] = EdgeCSR.split(nodes, edges, whole["incoming"], whole["outgoing"])
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))
