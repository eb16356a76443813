"""The regulariser on the share of a graph that a mask keeps."""

from torch import Tensor

from outland.graphs import GraphBatch
from outland.nn import Mask
from outland.ops import Indicator, ratio_penalties


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
    return batch.mean_graphs(ratio_penalties(mask.node, mask.edge, *segments, node_ratio, edge_ratio, indicator))
