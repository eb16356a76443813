"""The mean of the rows that a mask marks."""

import torch
from torch import Tensor

from outland.ops.dispatch import op

_MOST = 2**14  # numbers that one program takes


@op(
    "outland.ops.triton.mean:masked_mean",
    lambda values, mask: mask is not None and values.dim() == 1 and 0 < len(values) <= _MOST,
)
def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of the rows of `values` `[B, ...]` that `mask` `[B]` marks, 0 if it marks none; None marks all."""
    if mask is None:
        return values.mean(0)
    marked = mask.reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(marked, values, 0).sum(0) / mask.sum().clamp(min=1)
