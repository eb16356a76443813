"""The two heads of a mask network after their matrix product: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.kernels.sparse import Groups

_ROWS, _NODES, _DEEP = 128, 32, 4


def mask_weights(
    said: Tensor, node_bias: Tensor, edge_bias: Tensor, edge_index: Tensor, incoming: Groups, outgoing: Groups
) -> tuple[Tensor, Tensor]:
    r"""Weights of nodes `[N]` and edges `[E]`, :math:`\sigma(s_{i0} + b)` and :math:`\sigma(s_{i1} + s_{j2} + c)`.

    Args:
        said: what each node says of itself, as a source and as a target `[N, 3]`.
        node_bias, edge_bias: b and c `[1]`.
        edge_index: source i and target j of each edge `[2, E]`.
        incoming, outgoing: the edges by target and by source.
    """
    node, edge = _MaskWeights.apply(said.contiguous(), node_bias, edge_bias, edge_index, incoming, outgoing)
    return node, edge


class _MaskWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        said: Tensor,
        node_bias: Tensor,
        edge_bias: Tensor,
        edge_index: Tensor,
        inward: Groups,
        outward: Groups,
    ) -> tuple[Tensor, Tensor]:
        nodes, edges = len(said), edge_index.shape[1]
        node, edge = said.new_empty(nodes), said.new_empty(edges)
        if nodes:
            grid = (triton.cdiv(max(nodes, edges), _ROWS),)
            _weights[grid](said, node_bias, edge_bias, edge_index, node, edge, nodes, edges, _ROWS)
        ctx.save_for_backward(node, edge)
        ctx.groups = inward, outward
        return node, edge

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, for_node: Tensor, for_edge: Tensor) -> tuple[Tensor | None, ...]:
        node, edge = ctx.saved_tensors
        (pointers_in, edges_in, _), (pointers_out, edges_out, _) = ctx.groups
        for_said = node.new_empty(len(node), 3, dtype=torch.float32)
        slopes = for_node.contiguous(), for_edge.contiguous()
        if len(node):
            _weights_back[(triton.cdiv(len(node), _NODES),)](
                node, edge, *slopes, pointers_in, edges_in, pointers_out, edges_out, for_said, len(node),
                edges_in is not None, edges_out is not None, _NODES, _DEEP, num_warps=1,
            )  # fmt: skip
        biases = for_said.sum(0)
        return for_said.to(node.dtype), biases[:1], biases[1:2], None, None, None


@triton.jit(do_not_specialize=["nodes", "edges"])
def _weights(said, node_bias, edge_bias, edge_index, node, edge, nodes, edges, R: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    here = row < nodes
    own = tl.load(said + 3 * row, mask=here, other=0).to(tl.float32) + tl.load(node_bias).to(tl.float32)
    tl.store(node + row, tl.sigmoid(own), mask=here)
    here = row < edges
    source = tl.load(edge_index + row, mask=here, other=0)
    target = tl.load(edge_index + edges + row, mask=here, other=0)
    both = tl.load(said + 3 * source + 1, mask=here, other=0).to(tl.float32)
    both += tl.load(said + 3 * target + 2, mask=here, other=0).to(tl.float32) + tl.load(edge_bias).to(tl.float32)
    tl.store(edge + row, tl.sigmoid(both), mask=here)


@triton.jit
def _slope(value, slope, place, here):
    """Before the sigmoid."""
    after = tl.load(value + place, mask=here, other=0).to(tl.float32)
    return tl.load(slope + place, mask=here, other=0).to(tl.float32) * after * (1 - after)


@triton.jit
def _sum_at(value, slope, pointers, edges, row, real, EDGES: tl.constexpr, R: tl.constexpr, K: tl.constexpr):
    """Slopes of the edges in the group of each node, added up."""
    first, last = tl.load(pointers + row, mask=real, other=0), tl.load(pointers + row + 1, mask=real, other=0)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, tl.max(last - first, 0), K):
        place = first[:, None] + start + tl.arange(0, K)[None, :]
        here = place < last[:, None]
        edge = place
        if EDGES:
            edge = tl.load(edges + place, mask=here, other=0)
        total += tl.sum(_slope(value, slope, edge, here), 1)
    return total


@triton.jit(do_not_specialize=["nodes"])
def _weights_back(
    node, edge, for_node, for_edge, pointers_in, edges_in, pointers_out, edges_out, for_said, nodes,
    IN: tl.constexpr, OUT: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * R + tl.arange(0, R)
    real = row < nodes
    tl.store(for_said + 3 * row, _slope(node, for_node, row, real), mask=real)
    said = _sum_at(edge, for_edge, pointers_out, edges_out, row, real, OUT, R, K)
    tl.store(for_said + 3 * row + 1, said, mask=real)
    heard = _sum_at(edge, for_edge, pointers_in, edges_in, row, real, IN, R, K)
    tl.store(for_said + 3 * row + 2, heard, mask=real)
