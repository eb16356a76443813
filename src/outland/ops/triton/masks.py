"""The two heads of a mask network after their matrix product: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from outland.ops.csr import Edges

_ROWS, _NODES, _DEPTH = 128, 32, 4


def mask_weights(
    z: Tensor, node_weight: Tensor, node_bias: Tensor, edge_weight: Tensor, edge_bias: Tensor, edges: Edges
) -> tuple[Tensor, Tensor]:
    """See `ops.mask_weights`; both heads are one product, to `[N, 3]`: for the node, as a source and as a target."""
    heads = torch.cat([weight.reshape(-1, z.shape[1]) for weight in (node_weight, edge_weight)])
    scores = functional.linear(z, heads).contiguous()
    node, edge = _MaskWeights.apply(scores, node_bias, edge_bias, edges)
    return node, edge


class _MaskWeights(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, node_bias: Tensor, edge_bias: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
        index, *ctx.grouped = edges
        counts = len(scores), index.shape[1]
        node, edge = (scores.new_empty(count) for count in counts)
        if len(scores):
            grid = (triton.cdiv(max(counts), _ROWS),)
            _mask_weights_forward[grid](scores, node_bias, edge_bias, index, node, edge, *counts, _ROWS)
        ctx.save_for_backward(node, edge)
        return node, edge

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_node: Tensor, grad_edge: Tensor) -> tuple[Tensor | None, ...]:
        node, edge = ctx.saved_tensors
        (rowptr_in, perm_in, _), (rowptr_out, perm_out, _) = ctx.grouped
        grad_scores = node.new_empty(len(node), 3, dtype=torch.float32)
        grads = grad_node.contiguous(), grad_edge.contiguous()
        if len(node):
            _mask_weights_backward[(triton.cdiv(len(node), _NODES),)](
                node, edge, *grads, rowptr_in, perm_in, rowptr_out, perm_out, grad_scores, len(node),
                perm_in is not None, perm_out is not None, _NODES, _DEPTH, num_warps=1,
            )  # fmt: skip
        biases = grad_scores.sum(0)
        return grad_scores.to(node.dtype), biases[:1], biases[1:2], None


@triton.jit(do_not_specialize=["nodes", "edges"])
def _mask_weights_forward(scores, node_bias, edge_bias, edge_index, node, edge, nodes, edges, R: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    mask = row < nodes
    logit = tl.load(scores + 3 * row, mask=mask, other=0).to(tl.float32) + tl.load(node_bias).to(tl.float32)
    tl.store(node + row, tl.sigmoid(logit), mask=mask)
    mask = row < edges
    source = tl.load(edge_index + row, mask=mask, other=0)
    target = tl.load(edge_index + edges + row, mask=mask, other=0)
    logit = tl.load(scores + 3 * source + 1, mask=mask, other=0).to(tl.float32)
    logit += tl.load(scores + 3 * target + 2, mask=mask, other=0).to(tl.float32) + tl.load(edge_bias).to(tl.float32)
    tl.store(edge + row, tl.sigmoid(logit), mask=mask)


@triton.jit
def _sigmoid_backward(value, grad, position, mask):
    """The gradient before a sigmoid whose output is `value`."""
    after = tl.load(value + position, mask=mask, other=0).to(tl.float32)
    return tl.load(grad + position, mask=mask, other=0).to(tl.float32) * after * (1 - after)


@triton.jit
def _sum_grads(value, grad, rowptr, perm, row, in_rows, PERM: tl.constexpr, R: tl.constexpr, K: tl.constexpr):
    """The sum of the gradients of each node's edges."""
    first, last = tl.load(rowptr + row, mask=in_rows, other=0), tl.load(rowptr + row + 1, mask=in_rows, other=0)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, tl.max(last - first, 0), K):
        position = first[:, None] + start + tl.arange(0, K)[None, :]
        mask = position < last[:, None]
        edge = position
        if PERM:
            edge = tl.load(perm + position, mask=mask, other=0)
        total += tl.sum(_sigmoid_backward(value, grad, edge, mask), 1)
    return total


@triton.jit(do_not_specialize=["nodes"])
def _mask_weights_backward(
    node, edge, grad_node, grad_edge, rowptr_in, perm_in, rowptr_out, perm_out, grad_scores, nodes,
    IN: tl.constexpr, OUT: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * R + tl.arange(0, R)
    in_rows = row < nodes
    tl.store(grad_scores + 3 * row, _sigmoid_backward(node, grad_node, row, in_rows), mask=in_rows)
    as_source = _sum_grads(edge, grad_edge, rowptr_out, perm_out, row, in_rows, OUT, R, K)
    tl.store(grad_scores + 3 * row + 1, as_source, mask=in_rows)
    as_target = _sum_grads(edge, grad_edge, rowptr_in, perm_in, row, in_rows, IN, R, K)
    tl.store(grad_scores + 3 * row + 2, as_target, mask=in_rows)
