"""Rows normalised within each graph, with the ReLU and dropout after it."""

from typing import Any

from torch import Tensor

from outland.ops.csr import Segments
from outland.ops.dispatch import op
from outland.ops.dropout import DropoutDraws, activate
from outland.ops.rows import at_rows, pool


def _is_supported(values: Tensor, segments: Segments, *rest: Any, **named: Any) -> bool:
    return segments.ptr is not None and values.dim() == 2 and values.numel() > 0 and len(segments.sizes) > 0


@op("outland.ops.triton.segment_norm:segment_norm", _is_supported)
def segment_norm(
    values: Tensor, segments: Segments, relu: bool = False, dropout: DropoutDraws | None = None, eps: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 in each column over the rows of each graph, then `activate(..., relu, dropout)`.

    Rows `[R, d]`; the only row of a graph becomes 0, and so does padding.
    """
    centred = values - at_rows(pool(values, segments, mean=True), segments)
    variance = pool(centred.square(), segments, mean=True)
    return activate(centred * at_rows((variance + eps).rsqrt(), segments), relu, dropout)
