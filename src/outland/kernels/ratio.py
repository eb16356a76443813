"""How far the share of each graph that a mask keeps is from the share wanted: one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


def ratio_penalties(
    node: Tensor, edge: Tensor, by_graph: tuple[Tensor, Tensor], ratios: tuple[float, float], hard: bool
) -> Tensor:
    """|mean - ratio| of each graph's nodes plus that of its edges `[B]`; if `hard`, and the share of entries above 0.

    Args:
        node, edge: weights `[N]`, `[E]`.
        by_graph: where the nodes and the edges of each graph begin `[B + 1]`; graphs stand one after another.
        ratios: wanted of nodes and of edges.
        hard: add how far the share of entries above 0 is above the ratio; it has no slope.
    """
    penalties: Tensor = _Penalties.apply(node.contiguous(), edge.contiguous(), *by_graph, *ratios, hard)
    return penalties


class _Penalties(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, node: Tensor, edge: Tensor, nodes: Tensor, edges: Tensor, of_nodes: float, of_edges: float, hard: bool
    ) -> Tensor:
        graphs = len(nodes) - 1
        out, signs = node.new_empty(graphs), node.new_empty(2, graphs, dtype=torch.float32)
        if graphs:
            _penalties[(graphs,)](node, edge, nodes, edges, out, signs, of_nodes, of_edges, graphs, hard, 128)
        ctx.save_for_backward(nodes, edges, signs)
        ctx.node, ctx.edge = node.shape, edge.shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        nodes, edges, signs = ctx.saved_tensors
        graphs = len(slope)
        if not graphs:  # there is nothing but padding
            return slope.new_zeros(ctx.node), slope.new_zeros(ctx.edge), None, None, None, None, None
        for_node, for_edge = slope.new_empty(ctx.node), slope.new_empty(ctx.edge)
        _penalties_back[(graphs + 1,)](
            slope.contiguous(), nodes, edges, signs, for_node, for_edge, len(for_node), len(for_edge), graphs, 128
        )
        return for_node, for_edge, None, None, None, None, None


@triton.jit
def _share(values, pointers, graph, ratio, HARD: tl.constexpr, K: tl.constexpr):
    """The penalty of one graph's entries, and the slope of each of them."""
    first, last = tl.load(pointers + graph), tl.load(pointers + graph + 1)
    total = tl.zeros((K,), tl.float32)
    above = tl.zeros((K,), tl.float32)
    for start in range(first, last, K):
        place = start + tl.arange(0, K)
        value = tl.load(values + place, mask=place < last, other=0).to(tl.float32)
        total += value
        above += (value > 0).to(tl.float32)
    count = tl.maximum(last - first, 1).to(tl.float32)
    apart = tl.sum(total, 0) / count - ratio
    penalty = tl.abs(apart)
    if HARD:
        penalty += tl.sum(above, 0) / count - ratio
    sign = (apart > 0).to(tl.float32) - (apart < 0).to(tl.float32)
    return penalty, sign / count


@triton.jit(do_not_specialize=["graphs"])
def _penalties(
    node, edge, nodes, edges, out, signs, of_nodes, of_edges, graphs, HARD: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    graph = tl.program_id(0)
    penalty, sign = _share(node, nodes, graph, of_nodes, HARD, K)
    more, edge_sign = _share(edge, edges, graph, of_edges, HARD, K)
    some = (tl.load(edges + graph + 1) > tl.load(edges + graph)).to(tl.float32)  # a graph without edges has no penalty
    tl.store(out + graph, penalty + more * some)
    tl.store(signs + graph, sign)
    tl.store(signs + graphs + graph, edge_sign)


@triton.jit(do_not_specialize=["graphs", "all_nodes", "all_edges"])
def _penalties_back(
    slope, nodes, edges, signs, for_node, for_edge, all_nodes, all_edges, graphs, K: tl.constexpr
):  # fmt: skip
    """One program a graph; one more for the padding, which has slope 0."""
    graph = tl.program_id(0)
    padding = graph == graphs
    some = tl.minimum(graph, graphs - 1)
    change = tl.load(slope + some).to(tl.float32)
    for side in tl.static_range(2):
        pointers, target, rows = nodes, for_node, all_nodes
        if side == 1:
            pointers, target, rows = edges, for_edge, all_edges
        first = tl.load(pointers + graph)
        last = tl.where(padding, rows, tl.load(pointers + some + 1))
        value = tl.where(padding, 0.0, change * tl.load(signs + side * graphs + some))
        for start in range(first, last, K):
            place = start + tl.arange(0, K)
            tl.store(target + place, tl.zeros((K,), tl.float32) + value, mask=place < last)
