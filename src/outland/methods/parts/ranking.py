"""Ranks within graphs, and edges by rank, without a loop or a device synchronisation."""

from typing import Literal

import torch
from torch import Tensor

from outland.graphs import GraphBatch

Rounding = Literal["ceil", "floor"]


def rank_within_group(keys: Tensor, group: Tensor, groups: int) -> Tensor:
    """Rank of each row by ascending key among the rows of its group, from 0; ties in the order of rows."""
    order = keys.argsort(stable=True)
    order = order[group[order].argsort(stable=True)]
    sizes = torch.zeros(groups, dtype=torch.long, device=keys.device).index_add_(0, group, torch.ones_like(group))
    starts = sizes.cumsum(0) - sizes
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order), device=keys.device) - starts[group[order]]
    return ranks


def top_edges(scores: Tensor, batch: GraphBatch, ratio: float, rounding: Rounding = "ceil") -> Tensor:
    """Which edges `[E]` are among the best ⌈ratio·m⌉ or ⌊ratio·m⌋ of their graph's m undirected ones."""
    first = batch.first_direction  # one row of each undirected edge
    total = batch.sum_edges(first.long()).double() * ratio
    # In floating point 0.7 * 10 is a little more than 7.
    quota = ((total - 1e-9).ceil() if rounding == "ceil" else (total + 1e-9).floor()).long()
    quota = torch.cat([quota, quota.new_zeros(1)])  # none for padding, which follows the graphs
    keys = torch.where(first, -scores.detach(), torch.inf)
    top = first & (rank_within_group(keys, batch.edge_batch, batch.num_graphs + 1) < quota[batch.edge_batch])
    return top | top[batch.reverse]


def both_directions(values: Tensor, batch: GraphBatch) -> Tensor:
    """Values `[E, ...]` in which both rows of an undirected edge have that of the first."""
    index = torch.arange(batch.num_edges, device=batch.x.device)
    return values.index_select(0, torch.minimum(index, batch.reverse))
