"""The two linear heads of a mask network."""

from torch import Tensor
from torch.nn import functional

from outland.ops.csr import Edges
from outland.ops.dispatch import op
from outland.ops.pair import pair_linear


@op(
    "outland.ops.triton.masks:mask_weights",
    lambda z, node_weight, node_bias, edge_weight, edge_bias, edges: edges.is_grouped,
)
def mask_weights(
    z: Tensor, node_weight: Tensor, node_bias: Tensor, edge_weight: Tensor, edge_bias: Tensor, edges: Edges
) -> tuple[Tensor, Tensor]:
    r"""Masks of nodes `[N]` and edges `[E]`, :math:`\sigma(a^\top z_i + b)` and :math:`\sigma(c^\top [z_i, z_j] + d)`.

    Node rows z `[N, k]`, weights a `[1, k]` and c `[1, 2k]`, biases b `[1]` and d `[1]`.
    """
    node, edge = functional.linear(z, node_weight, node_bias), pair_linear(z, edge_weight, edge_bias, edges)
    return node.squeeze(1).sigmoid(), edge.squeeze(1).sigmoid()
