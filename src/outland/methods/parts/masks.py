"""AIA's masks: random ones, and the regulariser on the share of a graph that a mask keeps."""

import torch
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.parts.ranking import rank_within_group, top_edges
from outland.nn import Mask
from outland.ops import Indicator, ratio_penalties


def random_mask(batch: GraphBatch, share: float, random: torch.Generator, dtype: torch.dtype) -> Mask:
    """Zero ⌊share·n⌋ nodes and ⌊share·m⌋ undirected edges of each graph, both directions together."""
    keys = torch.rand(batch.num_nodes, generator=random, device=batch.x.device)
    quota = batch.broadcast_to_nodes((batch.node_count.double() * share + 1e-9).floor())
    node = rank_within_group(keys, batch.node_batch, batch.num_graphs + 1) >= quota
    scores = -torch.rand(batch.num_edges, generator=random, device=batch.x.device)
    return Mask(node.to(dtype), (~top_edges(scores, batch, share, "floor")).to(dtype))


def ratio_penalty(
    mask: Mask, batch: GraphBatch, node_ratio: float, edge_ratio: float, indicator: Indicator = "hard"
) -> Tensor:
    r"""The regulariser of AIA (equations 9 and 10), nodes and edges together, mean over graphs.

    .. math:: r(M, k, \lambda) = \Big|\tfrac1k\sum M - \lambda\Big| + \Big(\tfrac1k\sum I[M > 0] - \lambda\Big)

    The paper prints no absolute value; without one the penalty would drive every mask to 0 whatever the ratio.
    A sigmoid is never 0, so the second term as printed is the constant :math:`1 - \lambda` without a gradient.
    `indicator` chooses its form: `hard` as printed; `soft`, which has a gradient and asks that a share
    :math:`\lambda` of the entries lies above one half, :math:`|\tfrac1k\sum\sigma(10(2M-1)) - \lambda|`, so that
    masks become uneven as the paper wants; or `none`. A graph without edges has no edge penalty.
    """
    segments = (batch.node_segments, batch.edge_segments)
    return batch.mean_graphs(ratio_penalties(mask.node, mask.edge, *segments, (node_ratio, edge_ratio), indicator))
