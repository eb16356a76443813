"""A linear map of both ends of every edge; with a norm after it, and as the hidden layer of a network."""

from typing import Any

from torch import Tensor
from torch.nn import functional

from outland.ops.csr import Edges, Segments
from outland.ops.dispatch import op
from outland.ops.dropout import DropoutDraws
from outland.ops.rows import gather_rows
from outland.ops.segment_norm import segment_norm


@op("outland.ops.triton.pair:pair_linear", lambda h, weight, bias, edges: edges.is_grouped)
def pair_linear(h: Tensor, weight: Tensor, bias: Tensor | None, edges: Edges) -> Tensor:
    r""":math:`W [h_u, h_v] + b` for every edge from u to v `[E, k]`, without a tensor of edges × 2d.

    Node rows h `[N, d]`, weight W `[k, 2d]`, bias b `[k]`, where None is 0. It splits into a part for the source and
    one for the target, each computed once a node.
    """
    at_source, at_target = weight.chunk(2, dim=1)
    out = gather_rows(h @ at_source.T, edges.edge_index[0], edges.outgoing)
    out = out + gather_rows(h @ at_target.T, edges.edge_index[1], edges.incoming)
    return out if bias is None else out + bias


@op(
    "outland.ops.triton.pair_scores:pair_scores",
    lambda h, weight, bias, last_weight, last_bias, edges: edges.is_grouped and len(last_weight) == 1,
)
def pair_scores(
    h: Tensor, weight: Tensor, bias: Tensor, last_weight: Tensor, last_bias: Tensor, edges: Edges
) -> Tensor:
    r""":math:`A\,\mathrm{ReLU}(W [h_u, h_v] + b) + a` for every edge from u to v `[E, s]`.

    Node rows h `[N, d]`, weights W `[k, 2d]` and A `[s, k]`, biases b `[k]` and a `[s]`. The kernel is for s = 1: the
    hidden layer `[E, k]`, the largest tensor of all on dense graphs, is nowhere written.
    """
    return functional.linear(pair_linear(h, weight, bias, edges).relu(), last_weight, last_bias)


def _is_supported(h: Tensor, weight: Tensor, edges: Edges, segments: Segments, *rest: Any, **named: Any) -> bool:
    is_grouped = edges.is_grouped and segments.ptr is not None
    return is_grouped and edges.edge_index.numel() > 0 and len(weight) > 0 and len(segments.sizes) > 0


@op("outland.ops.triton.pair_norm:pair_norm", _is_supported)
def pair_norm(
    h: Tensor,
    weight: Tensor,
    edges: Edges,
    segments: Segments,
    relu: bool = False,
    dropout: DropoutDraws | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`pair_linear` without a bias, then `segment_norm` over the edges of each graph, which are `segments` `[E, k]`.

    The kernel writes no rows but the result: what the norm reads is the largest tensor of all on dense graphs.
    """
    return segment_norm(pair_linear(h, weight, None, edges), segments, relu, dropout, eps)
