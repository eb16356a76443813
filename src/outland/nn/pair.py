"""A linear layer on the two ends of every edge."""

from torch import Tensor, nn

from outland import ops
from outland.graphs import GraphBatch


def pair_linear(linear: nn.Linear, h: Tensor, batch: GraphBatch) -> Tensor:
    """A linear map of `[h_source, h_target]` for every edge `[E, out]`."""
    return ops.pair_linear(h, linear.weight, linear.bias, batch.edges)


class PairLinear(nn.Linear):
    """A `Linear(2·width, outputs)` on `[z_source, z_target]` of every edge."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(2 * width, outputs)

    def forward(self, z: Tensor, batch: GraphBatch) -> Tensor:  # type: ignore[override]
        """Node states `[N, width]` to edge values `[E, outputs]`."""
        return pair_linear(self, z, batch)
