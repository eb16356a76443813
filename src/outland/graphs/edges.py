"""Index arithmetic on the flat rows of a set of graphs."""

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK = 4096  # graphs whose edges are looked at together
_SMALL_BLOCK = 256  # graphs whose edges are sorted together


def rows_of_graphs(index: Tensor, counts: Tensor, offsets: Tensor) -> Tensor:
    """The rows that belong to the graphs at `index`, graph after graph."""
    picked = counts[index]
    shift = offsets[index] - (picked.cumsum(0) - picked)
    return torch.arange(int(picked.sum())) + shift.repeat_interleave(picked)


def graphs_of_rows(counts: Tensor) -> Tensor:
    """The graph of each row, where graphs have so many rows each."""
    return torch.arange(len(counts)).repeat_interleave(counts)


def edge_blocks(node_counts: Tensor, edge_counts: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """The edges of some graphs at a time: their rows, and the node and edge counts of their graphs."""
    first = 0
    for nodes, edges in zip(node_counts.split(BLOCK), edge_counts.split(BLOCK), strict=True):
        last = first + int(edges.sum())
        yield slice(first, last), nodes, edges
        first = last


def starts_by_edge(counts: Tensor, edge_counts: Tensor) -> Tensor:
    """For each edge the first row of its graph, of rows that number `counts` in each graph."""
    return (counts.cumsum(0) - counts).repeat_interleave(edge_counts)


def reverse_edges(edge_index: Tensor, node_counts: Tensor, edge_counts: Tensor) -> Tensor:
    """For each edge the position of its other direction among its graph's edges; its own if there is none.

    Parallel edges are paired in order, so the result is its own inverse.
    """
    source, target = edge_index.long() + starts_by_edge(node_counts, edge_counts)
    total = int(node_counts.sum())
    forward, backward = source * total + target, target * total + source
    keys, order = forward.sort(stable=True)
    if not len(keys):
        return torch.zeros(0, dtype=torch.long)
    copy = torch.empty_like(order)
    copy[order] = torch.arange(len(keys)) - torch.searchsorted(keys, keys)
    position = torch.searchsorted(keys, backward) + copy
    inside = position.clamp(max=len(keys) - 1)
    has_reverse = (position < len(keys)) & (keys[inside] == backward)
    partner = torch.where(has_reverse, order[inside], torch.arange(len(keys)))
    return partner - starts_by_edge(edge_counts, edge_counts)


def reverse_edges_in_blocks(edge_index: Tensor, node_counts: Tensor, edge_counts: Tensor) -> Tensor:
    """`reverse_edges` for a few hundred graphs at a time, to save memory."""
    nodes, counts = node_counts.split(_SMALL_BLOCK), edge_counts.split(_SMALL_BLOCK)
    edges = edge_index.split([int(count.sum()) for count in counts], dim=1)
    blocks = [reverse_edges(*block).int() for block in zip(edges, nodes, counts, strict=True)]
    return torch.cat([torch.zeros(0, dtype=torch.int32), *blocks])


def to_smallest_int(values: Tensor) -> Tensor:
    """The same whole numbers, from 0 up, in the smallest type that holds them: sets of graphs are mostly edges."""
    top = int(values.max()) if values.numel() else 0
    return values.to(torch.uint8 if top < 2**8 else torch.int16 if top < 2**15 else torch.int32)
