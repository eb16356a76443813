"""Sums over the neighbours of each node, as products with sparse matrices.

Messages are not written edge by edge: a weighted sum of the neighbours' rows is a sparse matrix times a dense one, its
gradient to the rows is the transposed product, and its gradient to the weights is a product sampled at the edges. On
dense graphs this is several times faster than gathering, weighing and adding up.
"""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import EdgeCSR, Edges, prefers_csr
from outland.ops.dispatch import op
from outland.ops.rows import Rows, csr_matmul, dense_rows, gather_rows, scatter_rows, widen, without_autocast

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")


@op("outland.ops.triton.aggregate:sum_neighbours", lambda x, edges, *_: edges.is_grouped)
def sum_neighbours(x: Tensor, edges: Edges, weight: Tensor | None = None) -> Tensor:
    r""":math:`\sum_{j \to i} w_{ji} x_j`, from node rows x `[N, d]` and edge weights w `[E]`, where None is 1."""
    if edges.is_grouped and prefers_csr(x):
        total: Tensor = _WeightedSum.apply(x, weight, edges.incoming, edges.outgoing)  # type: ignore[no-untyped-call]
        return total
    messages = gather_rows(x, edges.edge_index[0], edges.outgoing)
    return scatter_rows(_weighted(messages, weight), edges.edge_index[1], len(x), edges.incoming)


@op("outland.ops.triton.aggregate:gin_aggregate", lambda x, eps, edges, *_: edges.is_grouped)
def gin_aggregate(
    x: Tensor,
    eps: Tensor,
    edges: Edges,
    weight: Tensor | None = None,
    edge_state: Rows | None = None,
    nonnegative: bool = False,
) -> Tensor:
    r"""Aggregation of GIN, :math:`(1+\epsilon)\,x_i + \sum_{j \to i} w_{ji}\,\mathrm{ReLU}(x_j + e_{ji})`.

    Node rows x `[N, d]`, one number ε, edge weights w `[E]`, where None is 1, and edge rows e `[E, d]`, where None is
    0; `nonnegative` says that no entry of `x` is below 0.
    """
    if edge_state is None:  # a message is its source's row, so none is written
        return (1 + eps) * x + sum_neighbours(x if nonnegative else x.relu(), edges, weight)
    messages = (gather_rows(x, edges.edge_index[0], edges.outgoing) + dense_rows(edge_state)).relu()
    return (1 + eps) * x + scatter_rows(_weighted(messages, weight), edges.edge_index[1], len(x), edges.incoming)


def _weighted(messages: Tensor, weight: Tensor | None) -> Tensor:
    return messages if weight is None else messages * weight[:, None]


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, incoming: EdgeCSR, outgoing: EdgeCSR) -> Tensor:
        ctx.save_for_backward(x if weight is not None else None, weight)
        ctx.grouped = incoming, outgoing
        values = None if weight is None else incoming.permute(weight)
        return csr_matmul(incoming.rowptr, incoming.col, values, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        incoming, outgoing = ctx.grouped
        grad = grad.contiguous()
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            values = None if weight is None else outgoing.permute(weight)
            grad_x = csr_matmul(outgoing.rowptr, outgoing.col, values, grad)
        if weight is not None and ctx.needs_input_grad[1]:
            grad_weight = incoming.unpermute(_sampled_matmul(incoming, grad, x))
        return grad_x, grad_weight, None, None


def _sampled_matmul(csr: EdgeCSR, row: Tensor, col: Tensor) -> Tensor:
    """Dot products of the rows at both ends of each edge, in the order of `csr` `[E]`."""
    wide, other = widen(row), widen(col)
    pattern = torch.sparse_csr_tensor(
        csr.rowptr, csr.col, wide.new_zeros(len(csr.col)), (len(row), len(col)), check_invariants=False
    )
    with without_autocast(row):
        products: Tensor = torch.sparse.sampled_addmm(pattern, wide, other.to(wide.dtype).T, beta=0.0).values()
    return products.to(row.dtype)
