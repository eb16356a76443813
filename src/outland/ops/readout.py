"""Readouts over the rows of each graph that are no plain sum: maximum, log-sum-exp, attention.

A weight `[N]`, where it is given, says how much of each row is there: a row of weight 0 does not reach the result. Rows
of padding never do, and a graph without rows has 0.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import Segments
from outland.ops.dispatch import op
from outland.ops.rows import at_rows, pool

MOST = 30.0  # largest exponent: it bounds the gradient of the weight of a row that is left out and above all others


def _supports(values: Tensor, segments: Segments, *rest: Any, **named: Any) -> bool:
    return segments.ptr is not None and values.dim() == 2 and values.shape[1] > 0


@op("outland.ops.triton.readout:max_pool", _supports)
def max_pool(values: Tensor, segments: Segments, weight: Tensor | None = None) -> Tensor:
    """The maximum of each graph's rows of a weight above 0: `[N, d]` to `[B, d]`.

    Rows that are equal share the gradient; none reaches the weights.
    """
    out: Tensor = _MaxPool.apply(values, segments, weight)  # type: ignore[no-untyped-call]
    return out


@op("outland.ops.triton.readout:logsumexp_pool", _supports)
def logsumexp_pool(values: Tensor, segments: Segments, temperature: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""A smooth maximum of each graph's rows, :math:`\tau \log \sum_i w_i e^{z_i / \tau}`: `[N, d]` to `[B, d]`."""
    scaled = values / temperature
    with torch.no_grad():
        top = _top(scaled, segments, weight)
    powers = (scaled - at_rows(top, segments)).clamp(max=MOST).exp()
    total = pool(powers if weight is None else powers * weight[:, None], segments)
    there = total != 0  # NaN is not 0 and stays
    return torch.where(there, temperature * (top + torch.where(there, total, 1).log()), 0)


@op("outland.ops.triton.attention:attention_pool", _supports)
def attention_pool(values: Tensor, segments: Segments, query: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""A mean of each graph's rows with weights :math:`\propto w_i e^{q^\top z_i}`: `[N, d]` to `[B, d]`, q `[d]`."""
    score = (values @ query)[:, None]
    with torch.no_grad():
        top = _top(score, segments, weight)
    powers = (score - at_rows(top, segments)).clamp(max=MOST).exp()
    powers = powers if weight is None else powers * weight[:, None]
    total = pool(powers, segments)
    return pool(values * powers, segments) / torch.where(total > 0, total, 1)


def _top(values: Tensor, segments: Segments, weight: Tensor | None) -> Tensor:
    """The maximum of each graph's rows of a weight above 0, 0 where there are none `[B, d]`. No gradient."""
    batch, _, sizes, padded = segments
    values = values if weight is None else torch.where(weight[:, None] > 0, values, -torch.inf)
    lowest = values.new_full((len(sizes) + padded, values.shape[1]), -torch.inf)
    top = lowest.scatter_reduce_(0, batch[:, None].expand_as(values), values, "amax")[: len(sizes)]
    return torch.where(top == -torch.inf, 0, top)


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, segments: Segments, weight: Tensor | None) -> Tensor:
        top = _top(values, segments, weight)
        ctx.segments, ctx.weight = segments, weight
        ctx.save_for_backward(values, top)
        return top

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, top = ctx.saved_tensors
        highest = values == at_rows(top, ctx.segments)
        if ctx.weight is not None:
            highest &= (ctx.weight > 0)[:, None]
        winners = highest.to(grad.dtype)
        share = grad / pool(winners, ctx.segments).clamp(min=1)
        return winners * at_rows(share, ctx.segments), None, None
