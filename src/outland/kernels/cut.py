"""Cuts a padded batch out of a set of graphs in three launches: one over graphs, one over nodes, one over edges.

The plain twin is `graphs.Gatherer`, which does it by fifty small steps.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from outland.kernels.sparse import Groups

_ROWS = 128


@dataclass(frozen=True)
class Source:
    """A set of graphs, as the kernels read it.

    Args:
        x: node rows `[N, F]`.
        edge_index: sources and targets `[2, E]`, counted within each graph.
        reverse: place of each edge's other direction within its graph `[E]`.
        edge_attr: edge rows `[E, F_e]`, if there are any.
        node_counts, edge_counts, node_offsets, edge_offsets: of each graph `[G]`.
        pointers: where the edges that leave, and those that reach, each node begin, in the whole set `[2, N]`.
        orders: place within its graph of each edge, by source and by target `[2, E]`; None where edges stand by
            source and have their other direction, so that nothing need be looked up.
    """

    x: Tensor
    edge_index: Tensor
    reverse: Tensor
    edge_attr: Tensor | None
    node_counts: Tensor
    edge_counts: Tensor
    node_offsets: Tensor
    edge_offsets: Tensor
    pointers: Tensor
    orders: Tensor | None


def cut(source: Source, index: Tensor, nodes: int, edges: int) -> dict[str, Any]:
    """The graphs at `index` `[B]`, where -1 is none, filled up to so many nodes and edges.

    Returns the fields of a batch by name, and beside them the groups that `graphs.Wires` are made of: `by_graph`, where
    the nodes and the edges of each graph begin, and `outgoing` and `incoming`. Padding is in no group.
    """
    graphs, device = len(index), index.device
    long = partial(torch.empty, dtype=torch.long, device=device)
    bounds = long(4, graphs + 1)  # by graph: first node, first edge, and their rows in the set
    table = long(3, graphs)  # node count, edge count, index without its padding
    real = torch.empty(graphs, dtype=torch.bool, device=device)
    _graphs[(1,)](
        index, source.node_counts, source.edge_counts, source.node_offsets, source.edge_offsets, bounds, table, real,
        graphs, _power(graphs),
    )  # fmt: skip
    x = source.x.new_empty(nodes, source.x.shape[1])
    node_batch, pointers = long(nodes), long(2, nodes + 1)
    node_mask = torch.empty(nodes, dtype=torch.bool, device=device)
    _nodes[(triton.cdiv(nodes + 1, _ROWS),)](
        bounds, source.x, source.pointers, x, node_batch, node_mask, pointers,
        graphs, nodes, len(source.x), x.shape[1], _power(graphs), _power(x.shape[1]), _ROWS,
    )  # fmt: skip
    edge_index, edge_batch, reverse = (long(shape) for shape in ((2, edges), edges, edges))
    edge_mask = torch.empty(edges, dtype=torch.bool, device=device)
    attr = None if source.edge_attr is None else source.edge_attr.new_empty(edges, source.edge_attr.shape[1])
    columns = 1 if attr is None else attr.shape[1]
    groups = None if source.orders is None else long(4, edges)  # edges and far nodes, by source and by target
    if edges:
        _edges[(triton.cdiv(edges, _ROWS),)](
            bounds, source.edge_index, source.reverse, source.edge_attr, source.orders,
            edge_index, edge_batch, reverse, edge_mask, attr, groups,
            graphs, nodes, edges, source.edge_index.shape[1], columns,
            attr is not None, groups is not None, _power(graphs), _power(columns), _ROWS,
        )  # fmt: skip
    outgoing: Groups = (pointers[0], None, edge_index[1])
    incoming: Groups = (pointers[0], reverse, edge_index[1])
    if groups is not None:
        outgoing, incoming = (pointers[0], groups[0], groups[1]), (pointers[1], groups[2], groups[3])
    return {
        "x": x,
        "edge_index": edge_index,
        "node_batch": node_batch,
        "edge_batch": edge_batch,
        "reverse": reverse,
        "node_count": table[0],
        "edge_count": table[1],
        "index": table[2],
        "edge_attr": attr,
        "node_mask": node_mask,
        "edge_mask": edge_mask,
        "graph_mask": real,
        "outgoing": outgoing,
        "incoming": incoming,
        "by_graph": bounds[:2],
    }


def _power(number: int) -> int:
    return int(triton.next_power_of_2(number))


@triton.jit(do_not_specialize=["graphs"])
def _graphs(
    index, node_counts, edge_counts, node_offsets, edge_offsets, bounds, table, real, graphs, B: tl.constexpr
):  # fmt: skip
    """How large each graph is, and where it begins, here and in the set."""
    place = tl.arange(0, B)
    inside = place < graphs
    wanted = tl.load(index + place, mask=inside, other=-1)
    found = wanted >= 0
    wanted = tl.maximum(wanted, 0)
    nodes = tl.load(node_counts + wanted, mask=found, other=0)
    edges = tl.load(edge_counts + wanted, mask=found, other=0)
    tl.store(table + place, nodes, mask=inside)
    tl.store(table + graphs + place, edges, mask=inside)
    tl.store(table + 2 * graphs + place, wanted, mask=inside)
    tl.store(real + place, found, mask=inside)
    row = graphs + 1
    tl.store(bounds + 1 + place, tl.cumsum(nodes, 0), mask=inside)
    tl.store(bounds + row + 1 + place, tl.cumsum(edges, 0), mask=inside)
    tl.store(bounds + 2 * row + place, tl.load(node_offsets + wanted, mask=found, other=0), mask=inside)
    tl.store(bounds + 3 * row + place, tl.load(edge_offsets + wanted, mask=found, other=0), mask=inside)
    tl.store(bounds + place, tl.zeros((B,), tl.int64), mask=place == 0)
    tl.store(bounds + row + place, tl.zeros((B,), tl.int64), mask=place == 0)


@triton.jit
def _owner(ends, row, graphs, B: tl.constexpr):
    """How many graphs end at or before each row: the place of the one that has it, or `graphs`."""
    found = tl.zeros_like(row)
    for halving in tl.static_range(20):  # up to half a million graphs
        if B >> halving > 0:
            further = found + (B >> halving)
            end = tl.load(ends + further, mask=further <= graphs, other=9223372036854775807)
            found = tl.where(end <= row, further, found)
    return found


@triton.jit(do_not_specialize=["graphs", "nodes", "stride"])
def _nodes(
    bounds, all_x, all_pointers, x, node_batch, node_mask, pointers,
    graphs, nodes, stride, width, B: tl.constexpr, F: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    inside, line = row < nodes, graphs + 1
    graph = _owner(bounds, row, graphs, B)
    real = graph < graphs
    source = row - tl.load(bounds + graph, mask=real, other=0)
    source = tl.where(real, source + tl.load(bounds + 2 * line + graph, mask=real, other=0), 0)
    tl.store(node_batch + row, graph, mask=inside)
    tl.store(node_mask + row, real, mask=inside)
    column = tl.arange(0, F)
    both = inside[:, None] & (column < width)[None, :]
    values = tl.load(all_x + source[:, None] * width + column[None, :], mask=both, other=0)
    tl.store(x + row[:, None] * width + column[None, :], values, mask=both)
    total = tl.load(bounds + line + graphs)
    shift = tl.load(bounds + line + graph, mask=real, other=0) - tl.load(bounds + 3 * line + graph, mask=real, other=0)
    for side in tl.static_range(2):
        first = tl.load(all_pointers + side * stride + source, mask=real, other=0) + shift
        tl.store(pointers + side * (nodes + 1) + row, tl.where(real, first, total), mask=row <= nodes)


@triton.jit(do_not_specialize=["graphs", "nodes", "edges", "stride"])
def _edges(
    bounds, all_edges, all_reverse, all_attr, orders, edge_index, edge_batch, reverse, edge_mask, attr, groups,
    graphs, nodes, edges, stride, width,
    ATTR: tl.constexpr, ORDERS: tl.constexpr, B: tl.constexpr, F: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    inside, line = row < edges, graphs + 1
    graph = _owner(bounds + line, row, graphs, B)
    real = graph < graphs
    start = tl.load(bounds + line + graph, mask=real, other=0)
    first = tl.load(bounds + graph, mask=real, other=0)
    source = tl.where(real, row - start + tl.load(bounds + 3 * line + graph, mask=real, other=0), 0)
    here = real & inside
    one = tl.load(all_edges + source, mask=here, other=0).to(tl.int64) + first
    other = tl.load(all_edges + stride + source, mask=here, other=0).to(tl.int64) + first
    back = tl.load(all_reverse + source, mask=here, other=0).to(tl.int64) + start
    tl.store(edge_index + row, tl.where(real, one, nodes - 1), mask=inside)
    tl.store(edge_index + edges + row, tl.where(real, other, nodes - 1), mask=inside)
    tl.store(reverse + row, tl.where(real, back, row), mask=inside)
    tl.store(edge_batch + row, graph, mask=inside)
    tl.store(edge_mask + row, real, mask=inside)
    if ORDERS:
        begin = source - (row - start)  # of the graph's edges in the set
        for side in tl.static_range(2):
            local = tl.load(orders + side * stride + source, mask=here, other=0).to(tl.int64)
            far = tl.load(all_edges + (1 - side) * stride + begin + local, mask=here, other=0).to(tl.int64) + first
            tl.store(groups + 2 * side * edges + row, tl.where(real, local + start, row), mask=inside)
            tl.store(groups + (2 * side + 1) * edges + row, tl.where(real, far, nodes - 1), mask=inside)
    if ATTR:
        column = tl.arange(0, F)
        both = inside[:, None] & (column < width)[None, :]
        values = tl.load(all_attr + source[:, None] * width + column[None, :], mask=both, other=0)
        tl.store(attr + row[:, None] * width + column[None, :], values, mask=both)
