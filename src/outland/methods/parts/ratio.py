"""The regulariser on the share of a graph that a mask keeps."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from outland import kernels
from outland.graphs import GraphBatch
from outland.nn import Mask

Indicator = Literal["hard", "soft", "none"]
_SHARPNESS = 10.0


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
    if batch.members is not None and batch.edge_members is not None and kernels.fits(mask.node) and indicator != "soft":
        from outland.kernels.ratio import ratio_penalties  # needs Triton

        by_graph = (batch.members.pointers, batch.edge_members.pointers)
        ratios = (node_ratio, edge_ratio)
        return batch.mean_graphs(ratio_penalties(mask.node, mask.edge, by_graph, ratios, indicator == "hard"))
    has_edges = batch.edge_count > 0
    nodes = _penalty(batch.mean_nodes, mask.node, node_ratio, indicator)
    edges = _penalty(batch.mean_edges, mask.edge, edge_ratio, indicator)
    return batch.mean_graphs(nodes + edges * has_edges)


def _penalty(mean: Callable[[Tensor], Tensor], mask: Tensor, ratio: float, indicator: Indicator) -> Tensor:
    penalty = (mean(mask) - ratio).abs()
    if indicator == "hard":
        penalty = penalty + (mean((mask > 0).to(mask.dtype)) - ratio)
    elif indicator == "soft":
        penalty = penalty + (mean((_SHARPNESS * (2 * mask - 1)).sigmoid()) - ratio).abs()
    return penalty
