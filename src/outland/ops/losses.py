"""The mean loss of known labels, and how far the mean of each graph's mask is from a ratio."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from outland.distributed import all_reduce_sum, world_size
from outland.ops.csr import Segments
from outland.ops.dispatch import op
from outland.ops.rows import pool

TaskKind = Literal["multiclass", "binary", "regression"]
Indicator = Literal["hard", "soft", "none"]
Ratios = tuple[float, float]
_MOST = 2**14  # entries that one program takes
_SHARPNESS = 10.0


def label_losses(logits: Tensor, y: Tensor, mask: Tensor | None, kind: TaskKind) -> tuple[Tensor, Tensor]:
    """Loss of each label `[B, T]` (one column for classes), and which of them count `[B, T]`.

    Unknown labels and graphs that `mask` `[B]` does not mark have loss 0 and do not count; no gradient comes from them.
    """
    if kind == "multiclass":
        losses = functional.cross_entropy(logits, y, reduction="none")[:, None]
        known = torch.ones_like(losses, dtype=torch.bool)
    else:
        y = y.to(logits.dtype).reshape_as(logits)
        known = ~y.isnan()
        target = torch.where(known, y, 0)
        if kind == "binary":
            losses = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        else:
            losses = functional.mse_loss(logits, target, reduction="none")
    if mask is not None:
        known = known & mask[:, None]
    return losses * known, known


def _supported(logits: Tensor, y: Tensor, mask: Tensor | None, kind: TaskKind) -> bool:
    rows, columns = (1 << (size - 1).bit_length() for size in logits.shape)  # as powers of 2
    class_probabilities = kind == "multiclass" and y.dim() > 1
    return logits.numel() > 0 and rows * columns <= _MOST and not class_probabilities and world_size() == 1


@op("outland.ops.triton.losses:mean_risk", _supported)
def mean_risk(logits: Tensor, y: Tensor, mask: Tensor | None, kind: TaskKind) -> Tensor:
    """Mean loss of `logits` `[B, K]` over the known labels of a batch, in all processes; 0 if there are none.

    `y` are classes `[B]`, or targets `[B]` or `[B, K]`, where NaN is unknown; `mask` `[B]` marks the graphs that are no
    padding, and None all.
    """
    losses, known = label_losses(logits, y, mask, kind)
    return all_reduce_sum(losses.sum()) / all_reduce_sum(known.sum()).clamp(min=1)


@op(
    "outland.ops.triton.losses:ratio_penalties",
    lambda node, edge, nodes, edges, ratios, indicator="hard": (
        nodes.ptr is not None and edges.ptr is not None and indicator != "soft"
    ),
)
def ratio_penalties(
    node: Tensor, edge: Tensor, nodes: Segments, edges: Segments, ratios: Ratios, indicator: Indicator = "hard"
) -> Tensor:
    r"""The regulariser of AIA (equations 9 and 10) of each graph `[B]`, of masks M of nodes `[N]` and of edges `[E]`.

    .. math:: r(M, k, \lambda) = \Big|\tfrac1k\sum M - \lambda\Big| + \Big(\tfrac1k\sum I[M > 0] - \lambda\Big)

    The second term is as given for `hard`; :math:`|\tfrac1k\sum\sigma(10(2M-1)) - \lambda|` for `soft`; 0 for `none`.
    `ratios` are λ of nodes and of edges. A graph without edges has no edge penalty.
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
