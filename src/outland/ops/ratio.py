"""How far the mean of each graph's mask is from a ratio."""

from typing import Literal

from torch import Tensor

from outland.ops.csr import Segments
from outland.ops.dispatch import op
from outland.ops.segment import pool

Indicator = Literal["hard", "soft", "none"]
Ratios = tuple[float, float]
_SHARPNESS = 10.0


@op(
    "outland.ops.triton.ratio:ratio_penalties",
    lambda node, edge, nodes, edges, ratios, indicator="hard": (
        nodes.ptr is not None and edges.ptr is not None and indicator != "soft"
    ),
)
def ratio_penalties(
    node: Tensor, edge: Tensor, nodes: Segments, edges: Segments, ratios: Ratios, indicator: Indicator = "hard"
) -> Tensor:
    r"""The regulariser of AIA (equations 9 and 10) of each graph `[B]`, nodes and edges together.

    .. math:: r(M, k, \lambda) = \Big|\tfrac1k\sum M - \lambda\Big| + \Big(\tfrac1k\sum I[M > 0] - \lambda\Big)

    The second term is as given for `hard`; :math:`|\tfrac1k\sum\sigma(10(2M-1)) - \lambda|` for `soft`; 0 for `none`.
    A graph without edges has no edge penalty.

    Args:
        node, edge: the masks M of nodes `[N]` and of edges `[E]`.
        nodes, edges: the rows of each graph.
        ratios: λ of nodes and of edges.
        indicator: the form of the second term.
    """
    penalty = _penalty(node, nodes, ratios[0], indicator)
    return penalty + _penalty(edge, edges, ratios[1], indicator) * (edges.sizes > 0)


def _penalty(mask: Tensor, segments: Segments, ratio: float, indicator: Indicator) -> Tensor:
    penalty = (pool(mask, segments, True) - ratio).abs()
    if indicator == "hard":
        penalty = penalty + (pool((mask > 0).to(mask.dtype), segments, True) - ratio)
    elif indicator == "soft":
        penalty = penalty + (pool((_SHARPNESS * (2 * mask - 1)).sigmoid(), segments, True) - ratio).abs()
    return penalty
