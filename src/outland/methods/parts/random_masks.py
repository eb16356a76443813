"""Random masks: ones, with a fixed share of each graph's nodes and edges at zero."""

import torch
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.parts.ranking import rank_within_group
from outland.nn import Mask


def random_mask(batch: GraphBatch, share: float, random: torch.Generator, dtype: torch.dtype) -> Mask:
    """Zero ⌊share·n⌋ nodes and ⌊share·m⌋ undirected edges of each graph, both directions together."""
    groups = batch.num_graphs + 1
    node_keys = torch.rand(batch.num_nodes, generator=random, device=batch.x.device)
    node_quota = _floor(share, batch.node_count)
    node = rank_within_group(node_keys, batch.node_batch, groups) >= node_quota[batch.node_batch]
    first = batch.first_direction  # one row of each undirected edge
    edge_keys = torch.rand(batch.num_edges, generator=random, device=batch.x.device)
    edge_keys = torch.where(first, edge_keys, torch.inf)
    edge_quota = _floor(share, batch.sum_edges(first.long()))
    rank = rank_within_group(edge_keys, batch.edge_batch, groups)
    dropped = first & (rank < edge_quota[batch.edge_batch])
    return Mask(node.to(dtype), (~(dropped | dropped[batch.reverse])).to(dtype))


def _floor(share: float, counts: Tensor) -> Tensor:
    """⌊share·count⌋ for each graph, and 0 for the padding that follows them."""
    quota = (counts.double() * share + 1e-9).floor().long()
    return torch.cat([quota, quota.new_zeros(1)])
