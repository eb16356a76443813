"""Graphs without some of their nodes, or without some of their edges."""

from dataclasses import replace

import torch
from torch import Tensor

from outland.graphs.edges import graphs_of_rows, starts_by_edge, to_smallest_int
from outland.graphs.packed import PackedGraphs


def induced_subgraphs(graphs: PackedGraphs, keep: Tensor) -> PackedGraphs:
    """Each graph without the nodes where `keep` `[N]` is False, and without their edges; features stay as they are."""
    nodes, edges = graphs.node_counts, graphs.edge_counts
    ends = graphs.edge_index.long() + starts_by_edge(nodes, edges).to(graphs.device)
    kept = keep[ends].all(0)
    node_counts = _counts(keep, nodes)
    node_row, rest = keep.long().cumsum(0) - 1, spanning_subgraphs(graphs, kept)
    first_node = starts_by_edge(node_counts, rest.edge_counts).to(graphs.device)
    return replace(
        rest,
        x=graphs.x[keep],
        edge_index=to_smallest_int(node_row[ends[:, kept]] - first_node),
        node_counts=node_counts,
        node_truth=None if graphs.node_truth is None else graphs.node_truth[keep],
    )


def spanning_subgraphs(graphs: PackedGraphs, keep: Tensor) -> PackedGraphs:
    """Each graph with all its nodes, without the edges where `keep` `[E]` is False: for both directions, or neither."""
    edges, row = graphs.edge_counts, keep.long().cumsum(0) - 1
    edge_counts = _counts(keep, edges)
    partner = graphs.reverse.long() + starts_by_edge(edges, edges).to(graphs.device)
    first_edge = starts_by_edge(edge_counts, edge_counts).to(graphs.device)
    return replace(
        graphs,
        edge_index=graphs.edge_index[:, keep],
        reverse=to_smallest_int(row[partner[keep]] - first_edge),
        edge_counts=edge_counts,
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[keep],
        edge_truth=None if graphs.edge_truth is None else graphs.edge_truth[keep],
    )


def _counts(kept: Tensor, counts: Tensor) -> Tensor:
    """How many rows of each graph are kept `[G]`, on the host."""
    return torch.zeros_like(counts).index_add(0, graphs_of_rows(counts), kept.cpu().to(counts.dtype))
