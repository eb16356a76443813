"""Ranks within graphs and permutations of batches, without a loop or a device synchronisation."""

import torch
from torch import Tensor

from outland.graphs import GraphBatch


def rank_within_group(keys: Tensor, group: Tensor, groups: int) -> Tensor:
    """Rank of each row by ascending key among the rows of its group, from 0; ties in the order of rows."""
    order = keys.argsort(stable=True)
    order = order[group[order].argsort(stable=True)]
    sizes = torch.zeros(groups, dtype=torch.long, device=keys.device).index_add_(0, group, torch.ones_like(group))
    starts = sizes.cumsum(0) - sizes
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order), device=keys.device) - starts[group[order]]
    return ranks


def permutation(batch: GraphBatch, random: torch.Generator) -> Tensor:
    """A random permutation of the batch's graphs `[B]`; padding graphs stay behind the real ones."""
    keys = torch.rand(batch.num_graphs, generator=random, device=batch.x.device)
    if batch.graph_mask is not None:
        keys = torch.where(batch.graph_mask, keys, torch.inf)
    return keys.argsort(stable=True)


def both_directions(values: Tensor, batch: GraphBatch) -> Tensor:
    """Values `[E, ...]` in which both rows of an undirected edge have that of the first."""
    index = torch.arange(batch.num_edges, device=batch.x.device)
    return values.index_select(0, torch.minimum(index, batch.reverse))
