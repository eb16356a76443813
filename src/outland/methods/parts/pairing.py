"""Pairs of graphs of a batch: all of them, or each graph with one other."""

import torch
from torch import Tensor

from outland.graphs import GraphBatch


def all_pairs(first: Tensor, second: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
    """Every sum `first[i] + second[j]` as row i·B + j `[B·B, d]`, and the batch with its labels of i.

    A pair with a padding graph is padding. The batch returned is for losses and heads, which read its labels and graph
    mask; its nodes and edges are still those of the B graphs.
    """
    sums = (first[:, None] + second[None]).flatten(0, 1)
    mask = batch.graph_mask
    both = None if mask is None else (mask[:, None] & mask[None]).flatten()
    return sums, batch.replace(y=batch.y.repeat_interleave(batch.num_graphs, 0), graph_mask=both)


def permutation(batch: GraphBatch, random: torch.Generator) -> Tensor:
    """A random permutation of the batch's graphs `[B]`; padding graphs stay behind the real ones."""
    keys = torch.rand(batch.num_graphs, generator=random, device=batch.x.device)
    if batch.graph_mask is not None:
        keys = torch.where(batch.graph_mask, keys, torch.inf)
    return keys.argsort(stable=True)


def reordered(values: Tensor, batch: GraphBatch, order: Tensor) -> tuple[Tensor, GraphBatch]:
    """The rows `values[order]` `[B, d]`, and the batch with its labels in that order.

    As in `all_pairs`, the batch is for losses and heads, and row i counts if graphs i and `order[i]` are both real.
    Orders come from `permutation`, which leaves padding in place.
    """
    mask = batch.graph_mask
    both = None if mask is None else mask & mask[order]
    return values.index_select(0, order), batch.replace(y=batch.y[order], graph_mask=both)
