"""A padded batch in three launches: one over graphs, one over nodes, one over edges."""

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from outland.ops.collation import CollateSource, Fields, graph_rows
from outland.ops.csr import EdgeCSR

_ROWS = 128


def collate_padded(index: Tensor, source: CollateSource, nodes: int, edges: int) -> Fields:
    """See `ops.collate_padded`. Padding is in no group: `node_ptr`, `edge_ptr` and each `rowptr` end before it."""
    graphs, device = len(index), index.device
    long = partial(torch.empty, dtype=torch.long, device=device)
    bounds = long(4, graphs + 1)  # of each graph: first node and first edge, here and in the set
    table = long(3, graphs)  # node count, edge count, index without its padding
    graph_mask = torch.empty(graphs, dtype=torch.bool, device=device)
    _graphs[(1,)](
        index, source.node_counts, source.edge_counts, source.node_offsets, source.edge_offsets, bounds, table,
        graph_mask, graphs, _power_of_2(graphs),
    )  # fmt: skip
    fields, rowptr = _collate_nodes(bounds, source, nodes)
    fields |= _collate_edges(bounds, source, nodes, edges, rowptr)
    fields |= {"node_count": table[0], "edge_count": table[1], "graph_mask": graph_mask}
    return {**fields, "node_ptr": bounds[0], "edge_ptr": bounds[1], **graph_rows(table[2], source)}


def _collate_nodes(bounds: Tensor, source: CollateSource, nodes: int) -> tuple[Fields, Tensor]:
    """The fields of nodes, and where the edges of each begin, by source and by target `[2, N + 1]`."""
    graphs, all_x = bounds.shape[1] - 1, source.x.contiguous()
    x = all_x.new_empty(nodes, all_x.shape[1])
    node_batch, rowptr = bounds.new_empty(nodes), bounds.new_empty(2, nodes + 1)
    node_mask = bounds.new_empty(nodes, dtype=torch.bool)
    _nodes[(triton.cdiv(nodes + 1, _ROWS),)](
        bounds, all_x, source.grouped[0], x, node_batch, node_mask, rowptr,
        graphs, nodes, len(all_x), x.shape[1], _power_of_2(graphs), _power_of_2(x.shape[1]), _ROWS,
    )  # fmt: skip
    return {"x": x, "node_batch": node_batch, "node_mask": node_mask}, rowptr


def _collate_edges(bounds: Tensor, source: CollateSource, nodes: int, edges: int, rowptr: Tensor) -> Fields:
    """The fields of edges, and their groupings."""
    graphs, all_edges, all_perm = bounds.shape[1] - 1, source.edge_index.contiguous(), source.grouped[1]
    edge_index, edge_batch, reverse = (bounds.new_empty(shape) for shape in ((2, edges), edges, edges))
    edge_mask = bounds.new_empty(edges, dtype=torch.bool)
    attr = None if source.edge_attr is None else source.edge_attr.new_empty(edges, source.edge_attr.shape[1])
    columns = 1 if attr is None else attr.shape[1]
    grouped = None if all_perm is None else bounds.new_empty(4, edges)  # perm and col, by source and by target
    if edges:
        _edges[(triton.cdiv(edges, _ROWS),)](
            bounds, all_edges, source.reverse, source.edge_attr, all_perm,
            edge_index, edge_batch, reverse, edge_mask, attr, grouped,
            graphs, nodes, edges, all_edges.shape[1], columns,
            attr is not None, grouped is not None, _power_of_2(graphs), _power_of_2(columns), _ROWS,
        )  # fmt: skip
    outgoing, incoming = EdgeCSR(rowptr[0], None, edge_index[1]), EdgeCSR(rowptr[0], reverse, edge_index[1])
    if grouped is not None:
        outgoing, incoming = EdgeCSR(rowptr[0], grouped[0], grouped[1]), EdgeCSR(rowptr[1], grouped[2], grouped[3])
    fields = {"edge_index": edge_index, "edge_batch": edge_batch, "edge_mask": edge_mask, "edge_attr": attr}
    return {**fields, "reverse": reverse, "outgoing": outgoing, "incoming": incoming}


def _power_of_2(number: int) -> int:
    return int(triton.next_power_of_2(number))


@triton.jit(do_not_specialize=["graphs"])
def _graphs(
    index, node_counts, edge_counts, node_offsets, edge_offsets, bounds, table, graph_mask, graphs, B: tl.constexpr
):  # fmt: skip
    """How large each graph is, and where it begins, here and in the set."""
    position = tl.arange(0, B)
    in_batch = position < graphs
    chosen = tl.load(index + position, mask=in_batch, other=-1)
    is_graph = chosen >= 0
    chosen = tl.maximum(chosen, 0)
    nodes = tl.load(node_counts + chosen, mask=is_graph, other=0)
    edges = tl.load(edge_counts + chosen, mask=is_graph, other=0)
    tl.store(table + position, nodes, mask=in_batch)
    tl.store(table + graphs + position, edges, mask=in_batch)
    tl.store(table + 2 * graphs + position, chosen, mask=in_batch)
    tl.store(graph_mask + position, is_graph, mask=in_batch)
    stride = graphs + 1
    tl.store(bounds + 1 + position, tl.cumsum(nodes, 0), mask=in_batch)
    tl.store(bounds + stride + 1 + position, tl.cumsum(edges, 0), mask=in_batch)
    tl.store(bounds + 2 * stride + position, tl.load(node_offsets + chosen, mask=is_graph, other=0), mask=in_batch)
    tl.store(bounds + 3 * stride + position, tl.load(edge_offsets + chosen, mask=is_graph, other=0), mask=in_batch)
    tl.store(bounds + position, tl.zeros((B,), tl.int64), mask=position == 0)
    tl.store(bounds + stride + position, tl.zeros((B,), tl.int64), mask=position == 0)


@triton.jit
def _graph_of(ends, row, graphs, B: tl.constexpr):
    """How many graphs end at or before each row: the index of its own, or `graphs`."""
    count = tl.zeros_like(row)
    for halving in tl.static_range(20):  # up to half a million graphs
        if B >> halving > 0:
            candidate = count + (B >> halving)
            end = tl.load(ends + candidate, mask=candidate <= graphs, other=9223372036854775807)
            count = tl.where(end <= row, candidate, count)
    return count


@triton.jit(do_not_specialize=["graphs", "nodes", "stride"])
def _nodes(
    bounds, all_x, all_rowptr, x, node_batch, node_mask, rowptr,
    graphs, nodes, stride, width, B: tl.constexpr, F: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    in_rows, step = row < nodes, graphs + 1
    graph = _graph_of(bounds, row, graphs, B)
    real = graph < graphs
    source = row - tl.load(bounds + graph, mask=real, other=0)
    source = tl.where(real, source + tl.load(bounds + 2 * step + graph, mask=real, other=0), 0)
    tl.store(node_batch + row, graph, mask=in_rows)
    tl.store(node_mask + row, real, mask=in_rows)
    column = tl.arange(0, F)
    mask = in_rows[:, None] & (column < width)[None, :]
    values = tl.load(all_x + source[:, None] * width + column[None, :], mask=mask, other=0)
    tl.store(x + row[:, None] * width + column[None, :], values, mask=mask)
    total = tl.load(bounds + step + graphs)
    shift = tl.load(bounds + step + graph, mask=real, other=0)
    shift -= tl.load(bounds + 3 * step + graph, mask=real, other=0)
    for side in tl.static_range(2):
        first = tl.load(all_rowptr + side * stride + source, mask=real, other=0) + shift
        tl.store(rowptr + side * (nodes + 1) + row, tl.where(real, first, total), mask=row <= nodes)


@triton.jit(do_not_specialize=["graphs", "nodes", "edges", "stride"])
def _edges(
    bounds, all_edges, all_reverse, all_attr, all_perm, edge_index, edge_batch, reverse, edge_mask, attr, grouped,
    graphs, nodes, edges, stride, width,
    ATTR: tl.constexpr, PERM: tl.constexpr, B: tl.constexpr, F: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    in_rows, step = row < edges, graphs + 1
    graph = _graph_of(bounds + step, row, graphs, B)
    real = graph < graphs
    start = tl.load(bounds + step + graph, mask=real, other=0)
    first = tl.load(bounds + graph, mask=real, other=0)
    source = tl.where(real, row - start + tl.load(bounds + 3 * step + graph, mask=real, other=0), 0)
    valid = real & in_rows
    source_node = tl.load(all_edges + source, mask=valid, other=0).to(tl.int64) + first
    target_node = tl.load(all_edges + stride + source, mask=valid, other=0).to(tl.int64) + first
    back = tl.load(all_reverse + source, mask=valid, other=0).to(tl.int64) + start
    tl.store(edge_index + row, tl.where(real, source_node, nodes - 1), mask=in_rows)
    tl.store(edge_index + edges + row, tl.where(real, target_node, nodes - 1), mask=in_rows)
    tl.store(reverse + row, tl.where(real, back, row), mask=in_rows)
    tl.store(edge_batch + row, graph, mask=in_rows)
    tl.store(edge_mask + row, real, mask=in_rows)
    if PERM:
        begin = source - (row - start)  # of the graph's edges in the set
        for side in tl.static_range(2):
            local = tl.load(all_perm + side * stride + source, mask=valid, other=0).to(tl.int64)
            far = tl.load(all_edges + (1 - side) * stride + begin + local, mask=valid, other=0).to(tl.int64) + first
            tl.store(grouped + 2 * side * edges + row, tl.where(real, local + start, row), mask=in_rows)
            tl.store(grouped + (2 * side + 1) * edges + row, tl.where(real, far, nodes - 1), mask=in_rows)
    if ATTR:
        column = tl.arange(0, F)
        mask = in_rows[:, None] & (column < width)[None, :]
        values = tl.load(all_attr + source[:, None] * width + column[None, :], mask=mask, other=0)
        tl.store(attr + row[:, None] * width + column[None, :], values, mask=mask)
