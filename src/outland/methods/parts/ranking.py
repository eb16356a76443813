"""Orders within graphs and within batches, by random or learned keys, without a loop and without waiting."""

import torch
from torch import Tensor

from outland.graphs import GraphBatch


def ranks(keys: Tensor, owner: Tensor, groups: int) -> Tensor:
    """Place of each row among its owner's rows, by ascending key: a sort with two keys, so that groups never mix."""
    order = keys.argsort(stable=True)
    order = order[owner[order].argsort(stable=True)]
    sizes = torch.zeros(groups, dtype=torch.long, device=keys.device).index_add_(0, owner, torch.ones_like(owner))
    starts = sizes.cumsum(0) - sizes
    result = torch.empty_like(order)
    result[order] = torch.arange(len(order), device=keys.device) - starts[owner[order]]
    return result


def permutation(batch: GraphBatch, random: torch.Generator) -> Tensor:
    """A random order of the batch's graphs `[B]`; padding graphs stay behind the real ones."""
    keys = torch.rand(batch.num_graphs, generator=random, device=batch.x.device)
    if batch.graph_mask is not None:
        keys = torch.where(batch.graph_mask, keys, torch.inf)
    return keys.argsort(stable=True)


def both_directions(values: Tensor, batch: GraphBatch) -> Tensor:
    """One value an undirected edge: that of the first of its two rows, in both."""
    place = torch.arange(batch.num_edges, device=batch.x.device)
    return values.index_select(0, torch.minimum(place, batch.reverse))
