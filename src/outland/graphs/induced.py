"""Graphs without some of their nodes."""

from dataclasses import replace

import torch
from torch import Tensor

from outland.graphs.edges import starts_by_edge, to_smallest_int
from outland.graphs.packed import PackedGraphs


def induced_subgraphs(graphs: PackedGraphs, keep: Tensor) -> PackedGraphs:
    """Each graph without the nodes where `keep` `[N]` is False, and without their edges; features stay as they are."""
    nodes, edges = graphs.node_counts, graphs.edge_counts
    ends = graphs.edge_index.long() + starts_by_edge(nodes, edges).to(graphs.device)
    kept = keep[ends].all(0)
    node_counts, edge_counts = _counts(keep, nodes), _counts(kept, edges)
    node_row, edge_row = keep.long().cumsum(0) - 1, kept.long().cumsum(0) - 1
    partner = graphs.reverse.long() + starts_by_edge(edges, edges).to(graphs.device)
    first_node, first_edge = (starts_by_edge(c, edge_counts).to(graphs.device) for c in (node_counts, edge_counts))
    return replace(
        graphs,
        x=graphs.x[keep],
        edge_index=to_smallest_int(node_row[ends[:, kept]] - first_node),
        reverse=to_smallest_int(edge_row[partner[kept]] - first_edge),
        node_counts=node_counts,
        edge_counts=edge_counts,
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[kept],
        node_truth=None if graphs.node_truth is None else graphs.node_truth[keep],
        edge_truth=None if graphs.edge_truth is None else graphs.edge_truth[kept],
    )


def _counts(kept: Tensor, counts: Tensor) -> Tensor:
    """How many rows of each graph are kept `[G]`, on the host."""
    graph = torch.arange(len(counts)).repeat_interleave(counts)
    return torch.zeros_like(counts).index_add(0, graph, kept.cpu().to(counts.dtype))
