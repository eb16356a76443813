"""What predictions lose when a node or an edge is removed from its graph."""

from collections.abc import Callable

import torch
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.parts.ranking import rank_within_group

Loss = Callable[[Tensor | None], Tensor]


def removal_losses(loss: Loss, batch: GraphBatch) -> tuple[Tensor, Tensor]:
    """By how much the loss of its graph rises when a node loses its edges `[N]`, and when an edge is removed `[E]`.

    `loss` gives the loss of each graph `[B]` from weights of edges, which are 0 where an edge is removed. One node, or
    one undirected edge, is removed at a time, of all graphs at once: as many passes as the largest graph has of both.
    """
    whole = loss(None)
    first = batch.first_direction & batch.real_edges
    order = rank_within_group(torch.where(first, 0.0, 1.0), batch.edge_batch, batch.num_graphs + 1)
    edge_number = torch.where(first, order, order[batch.reverse])

    def rises(removed: Tensor, graph: Tensor) -> Tensor:
        rise = loss((~removed).to(whole.dtype)) - whole
        return torch.cat([rise, rise.new_zeros(1)])[graph]

    node_number = batch.node_number
    nodes, edges = whole.new_zeros(batch.num_nodes), whole.new_zeros(batch.num_edges)
    for number in range(int(batch.node_count.max())):
        removed = node_number == number
        ends = removed[batch.edge_index[0]] | removed[batch.edge_index[1]]
        nodes = torch.where(removed & batch.real_nodes, rises(ends, batch.node_batch), nodes)
    per_graph = batch.sum_edges(first.to(whole.dtype))
    for number in range(int(per_graph.max())):
        removed = (edge_number == number) & batch.real_edges
        edges = torch.where(removed, rises(removed, batch.edge_batch), edges)
    return nodes, edges
