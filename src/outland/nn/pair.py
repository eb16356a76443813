"""A linear layer on the two ends of every edge."""

from torch import Tensor, nn

from outland import kernels
from outland.graphs import GraphBatch


def pair_linear(linear: nn.Linear, h: Tensor, batch: GraphBatch) -> Tensor:
    """A linear map of `[h_u, h_v]` for every edge `[E, out]`, without making a tensor of edges × 2d.

    It splits into a part for the source and one for the target, each computed once a node.
    """
    if batch.incoming is not None and batch.outgoing is not None and kernels.fits(h):
        from outland.kernels.pair import pair_sum  # needs Triton

        both = nn.functional.linear(h, linear.weight.reshape(-1, h.shape[1]))  # source, target, source, ...
        return pair_sum(both, linear.bias, batch.edge_index, batch.incoming.groups, batch.outgoing.groups)
    at_source, at_target = linear.weight.chunk(2, dim=1)
    out = batch.at_source(h @ at_source.T) + batch.at_target(h @ at_target.T)
    return out if linear.bias is None else out + linear.bias


class PairLinear(nn.Linear):
    """A `Linear(2·width, outputs)` on `[z_source, z_target]` of every edge."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(2 * width, outputs)

    def forward(self, z: Tensor, batch: GraphBatch) -> Tensor:  # type: ignore[override]
        """Node states `[N, width]` to edge values `[E, outputs]`."""
        return pair_linear(self, z, batch)
