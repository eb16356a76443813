"""The mean loss over the known labels of a batch, and the ratio penalties: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Segments
from outland.ops.losses import Indicator, Ratios


def mean_risk(logits: Tensor, y: Tensor, mask: Tensor | None, kind: str) -> Tensor:
    """See `ops.mean_risk`."""
    return _MeanRisk.apply(logits.contiguous(), y.contiguous(), mask, kind)


class _MeanRisk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, mask: Tensor | None, kind: str) -> Tensor:
        # The gradients are at hand once the loss is, so both are written; `backward` only scales them.
        out, grads = logits.new_empty((), dtype=torch.float32), torch.empty_like(logits, dtype=torch.float32)
        rows, width = logits.shape
        tile = triton.next_power_of_2(rows), triton.next_power_of_2(width)
        warps = min(max(tile[0] * tile[1] // 256, 4), 16)  # a thread that held more would run out of registers
        _mean_risk_forward[(1,)](
            logits, y, mask, out, grads, rows, width, kind, mask is not None, *tile, num_warps=warps
        )
        ctx.save_for_backward(grads)
        ctx.dtype = logits.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (grads,) = ctx.saved_tensors
        return (grads * grad).to(ctx.dtype), None, None, None


@triton.jit(do_not_specialize=["rows"])
def _mean_risk_forward(
    logits, y, mask, out, grads, rows, WIDTH: tl.constexpr,
    KIND: tl.constexpr, MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row, column = tl.arange(0, R), tl.arange(0, C)
    in_rows, in_width = row < rows, column < WIDTH
    valid = in_rows[:, None] & in_width[None, :]
    offset = row[:, None] * WIDTH + column[None, :]
    value = tl.load(logits + offset, mask=valid, other=0).to(tl.float32)
    real = in_rows
    if MASKED:
        real = tl.load(mask + row, mask=in_rows, other=0).to(tl.int1) & in_rows
    if KIND == "multiclass":
        label = tl.load(y + row, mask=in_rows, other=0)
        low = tl.where(valid, value, -float("inf"))
        top = tl.max(tl.where(valid, value, -1e38), 1)
        exponential = tl.where(valid, tl.exp(low - top[:, None]), 0)
        total = tl.maximum(tl.sum(exponential, 1), 1e-38)
        is_label = (column[None, :] == label[:, None]) & valid
        loss = tl.log(total) + top - tl.sum(tl.where(is_label, value, 0), 1)
        count = tl.maximum(tl.sum(real.to(tl.float32), 0), 1)
        grad = tl.where(real[:, None], exponential / total[:, None] - is_label.to(tl.float32), 0)
        total_loss = tl.sum(tl.where(real, loss, 0), 0)
    else:
        target = tl.load(y + offset, mask=valid, other=0).to(tl.float32)
        known = valid & real[:, None] & (target == target)
        target = tl.where(known, target, 0)
        if KIND == "binary":
            losses = tl.where(value < 0, 0, value) - value * target + tl.log(1 + tl.exp(-tl.abs(value)))
            grad = tl.sigmoid(value) - target
        else:
            losses = (value - target) * (value - target)
            grad = 2 * (value - target)
        grad = tl.where(known, grad, 0)
        count = tl.maximum(tl.sum(tl.sum(known.to(tl.float32), 1), 0), 1)
        total_loss = tl.sum(tl.sum(tl.where(known, losses, 0), 1), 0)
    tl.store(out, total_loss / count)
    tl.store(grads + offset, grad / count, mask=valid)


def ratio_penalties(
    node: Tensor, edge: Tensor, nodes: Segments, edges: Segments, ratios: Ratios, indicator: Indicator = "hard"
) -> Tensor:
    """See `ops.ratio_penalties`, for any `indicator` but `soft`."""
    masks, hard = (node.contiguous(), edge.contiguous()), indicator == "hard"
    return _RatioPenalties.apply(*masks, nodes.ptr, edges.ptr, ratios, hard)


class _RatioPenalties(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, node: Tensor, edge: Tensor, node_ptr: Tensor, edge_ptr: Tensor, ratios: Ratios, hard: bool
    ) -> Tensor:
        graphs = len(node_ptr) - 1
        out, signs = node.new_empty(graphs), node.new_empty(2, graphs, dtype=torch.float32)
        if graphs:
            _ratio_penalties_forward[(graphs,)](node, edge, node_ptr, edge_ptr, out, signs, *ratios, graphs, hard, 128)
        ctx.save_for_backward(node_ptr, edge_ptr, signs)
        ctx.node, ctx.edge = node.shape, edge.shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        node_ptr, edge_ptr, signs = ctx.saved_tensors
        graphs = len(grad)
        if not graphs:  # there is nothing but padding
            return grad.new_zeros(ctx.node), grad.new_zeros(ctx.edge), None, None, None, None
        grad_node, grad_edge = grad.new_empty(ctx.node), grad.new_empty(ctx.edge)
        rows = (len(grad_node), len(grad_edge))
        _ratio_penalties_backward[(graphs + 1,)](
            grad.contiguous(), node_ptr, edge_ptr, signs, grad_node, grad_edge, *rows, graphs, 128
        )
        return grad_node, grad_edge, None, None, None, None


@triton.jit
def _share(values, ptr, graph, ratio, HARD: tl.constexpr, K: tl.constexpr):
    """The penalty of one graph's entries, and the gradient of each of them."""
    first, last = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    total = tl.zeros((K,), tl.float32)
    above = tl.zeros((K,), tl.float32)
    for start in range(first, last, K):
        row = start + tl.arange(0, K)
        value = tl.load(values + row, mask=row < last, other=0).to(tl.float32)
        total += value
        above += (value > 0).to(tl.float32)
    count = tl.maximum(last - first, 1).to(tl.float32)
    excess = tl.sum(total, 0) / count - ratio
    penalty = tl.abs(excess)
    if HARD:
        penalty += tl.sum(above, 0) / count - ratio
    sign = (excess > 0).to(tl.float32) - (excess < 0).to(tl.float32)
    return penalty, sign / count


@triton.jit(do_not_specialize=["graphs"])
def _ratio_penalties_forward(
    node, edge, node_ptr, edge_ptr, out, signs, node_ratio, edge_ratio, graphs, HARD: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    graph = tl.program_id(0)
    penalty, sign = _share(node, node_ptr, graph, node_ratio, HARD, K)
    edge_penalty, edge_sign = _share(edge, edge_ptr, graph, edge_ratio, HARD, K)
    has_edges = (tl.load(edge_ptr + graph + 1) > tl.load(edge_ptr + graph)).to(tl.float32)
    tl.store(out + graph, penalty + edge_penalty * has_edges)
    tl.store(signs + graph, sign)
    tl.store(signs + graphs + graph, edge_sign)


@triton.jit(do_not_specialize=["graphs", "all_nodes", "all_edges"])
def _ratio_penalties_backward(
    grad, node_ptr, edge_ptr, signs, grad_node, grad_edge, all_nodes, all_edges, graphs, K: tl.constexpr
):  # fmt: skip
    """One program a graph, and one for the padding, whose gradient is 0."""
    graph = tl.program_id(0)
    padding = graph == graphs
    clamped = tl.minimum(graph, graphs - 1)
    grad_out = tl.load(grad + clamped).to(tl.float32)
    for side in tl.static_range(2):
        ptr, target, rows = node_ptr, grad_node, all_nodes
        if side == 1:
            ptr, target, rows = edge_ptr, grad_edge, all_edges
        first = tl.load(ptr + graph)
        last = tl.where(padding, rows, tl.load(ptr + clamped + 1))
        value = tl.where(padding, 0.0, grad_out * tl.load(signs + side * graphs + clamped))
        for start in range(first, last, K):
            row = start + tl.arange(0, K)
            tl.store(target + row, tl.zeros((K,), tl.float32) + value, mask=row < last)
