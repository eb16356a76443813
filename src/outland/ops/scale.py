"""Rows multiplied by a weight each."""

import torch
from torch import Tensor

from outland.ops.dispatch import op


@op(
    "outland.ops.triton.scale:scale_rows",
    lambda x, weight: torch.is_grad_enabled() and x.dtype == weight.dtype,
)
def scale_rows(x: Tensor, weight: Tensor) -> Tensor:
    """`x` `[N, d]` with each row multiplied by its `weight` `[N]`."""
    return x * weight[:, None]
