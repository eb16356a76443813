"""Rows gathered by index and rows summed by index, each the gradient of the other; rows scaled, averaged, embedded.

Sums by `index_add` and gradients of plain indexing are added by atomics, in an order that changes from run to run. With
the rows grouped, each group is one sum, always in the same order.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from outland.ops.csr import EdgeCSR, Segments, flatten_rows, prefers_csr
from outland.ops.dispatch import is_supported, op

SegmentSum = Callable[[Tensor, Tensor, Tensor | None], Tensor]
_SUM = 0  # of the modes of an embedding bag
_MOST = 2**14  # numbers that one program takes for a mean


@op("outland.ops.triton.rows:gather_rows", lambda values, index, csr=None: csr is not None)
def gather_rows(values: Tensor, index: Tensor, csr: EdgeCSR | None = None) -> Tensor:
    """`values[index]`: `[N, ...]` to `[E, ...]`; `csr` groups the rows of the result by `index` `[E]`."""
    if csr is None or not prefers_csr(values):
        return values.index_select(0, index)
    rows: Tensor = GatherRows.apply(values, index, csr, segment_sum)  # type: ignore[no-untyped-call]
    return rows


@op("outland.ops.triton.rows:scatter_rows", lambda values, index, num_rows, csr=None: csr is not None)
def scatter_rows(values: Tensor, index: Tensor, num_rows: int, csr: EdgeCSR | None = None) -> Tensor:
    """Sums of rows with equal `index` `[E]`: `[E, ...]` to `[num_rows, ...]`; `csr` groups `values` by it."""
    if csr is None or not prefers_csr(values):
        return values.new_zeros(num_rows, *values.shape[1:]).index_add_(0, index, values)
    total: Tensor = ScatterRows.apply(values, index, csr.rowptr, csr.perm, segment_sum)  # type: ignore[no-untyped-call]
    return total


@op("outland.ops.triton.rows:pool", lambda values, segments, mean=False: segments.ptr is not None)
def pool(values: Tensor, segments: Segments, mean: bool = False) -> Tensor:
    """Sum, or mean, of each graph's rows: `[N, ...]` to `[B, ...]`; padding is left out, no rows give 0."""
    batch, ptr, sizes, padded = segments
    if ptr is not None and prefers_csr(values):
        total: Tensor = ScatterRows.apply(values, batch, ptr, None, segment_sum)  # type: ignore[no-untyped-call]
    else:
        total = values.new_zeros(len(sizes) + padded, *values.shape[1:]).index_add_(0, batch, values)
    total = total[: len(sizes)]
    return total / sizes.clamp(min=1).reshape(-1, *[1] * (values.dim() - 1)) if mean else total


def at_rows(values: Tensor, segments: Segments) -> Tensor:
    """Give each row its graph's values, padding 0: `[B, d]` to `[N, d]`."""
    if segments.padded:
        values = torch.cat([values, values.new_zeros(1, values.shape[1])])
    return values.index_select(0, segments.batch)


@op(
    "outland.ops.triton.rows:masked_mean",
    lambda values, mask: mask is not None and values.dim() == 1 and 0 < len(values) <= _MOST,
)
def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of the rows of `values` `[B, ...]` that `mask` `[B]` marks, 0 if it marks none; None marks all."""
    if mask is None:
        return values.mean(0)
    marked = mask.reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(marked, values, 0).sum(0) / mask.sum().clamp(min=1)


@op("outland.ops.triton.rows:scale_rows", lambda x, weight: torch.is_grad_enabled() and x.dtype == weight.dtype)
def scale_rows(x: Tensor, weight: Tensor) -> Tensor:
    """`x` `[N, d]` with each row multiplied by its `weight` `[N]`."""
    return x * weight[:, None]


@op("outland.ops.triton.embeddings:embedding_sum")
def embedding_sum(table: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """Sums of the embeddings of the categories `values` `[N, k]`: `[N, d]`.

    `table` `[V, d]` has the embeddings of all columns' categories, those of column j from row `offsets[j]` on.
    """
    rows = values.long() + offsets
    if torch.is_grad_enabled():
        return functional.embedding(rows, table).sum(1)
    return functional.embedding_bag(rows, table, mode="sum")  # the same sums, and no row is written for each category


class EmbeddedRows(NamedTuple):
    """Rows `[N, d]` that are not written: the arguments of `embedding_sum`, for operations that look them up."""

    table: Tensor
    values: Tensor
    offsets: Tensor


Rows = Tensor | EmbeddedRows


def embedded_rows(table: Tensor, values: Tensor, offsets: Tensor) -> Rows:
    """`embedding_sum`; where there are kernels its rows are not written, for these look embeddings up."""
    rows = EmbeddedRows(table, values, offsets)
    return rows if is_supported(table) else dense_rows(rows)


def dense_rows(rows: Rows) -> Tensor:
    """The rows in one tensor `[N, d]`."""
    return embedding_sum(*rows) if isinstance(rows, EmbeddedRows) else rows


class GatherRows(torch.autograd.Function):
    """`index_select`, whose gradient is a grouped sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, csr: EdgeCSR, total: SegmentSum) -> Tensor:
        """`values[index]`."""
        ctx.csr, ctx.total = csr, total
        return values.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Sums of the gradients of equal rows."""
        return ctx.total(grad.contiguous(), ctx.csr.rowptr, ctx.csr.perm), None, None, None


class ScatterRows(torch.autograd.Function):
    """A grouped sum, whose gradient is `index_select`."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, index: Tensor, rowptr: Tensor, perm: Tensor | None, total: SegmentSum
    ) -> Tensor:
        """Sum of each group."""
        ctx.save_for_backward(index)
        return total(values, rowptr, perm)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Each row's group's gradient."""
        return grad.index_select(0, *ctx.saved_tensors), None, None, None, None


def segment_sum(values: Tensor, rowptr: Tensor, perm: Tensor | None) -> Tensor:
    """Sum of the rows `[E, ...]` of each group. No gradient."""
    col = torch.arange(len(values), device=values.device) if perm is None else perm
    return csr_matmul(rowptr, col, None, values)


def csr_matmul(rowptr: Tensor, col: Tensor, weight: Tensor | None, dense: Tensor) -> Tensor:
    """A sparse matrix with these entries times `dense` `[N, ...]`, on a CPU. No gradient.

    As a sum of weighted embeddings, which is the same: MKL's sparse product fills its result with zeros and copies it
    before it adds anything, and takes twice as long or more. Every column lies before the last pointer.
    """
    wide = widen(dense)
    weight = None if weight is None else weight.to(wide.dtype)
    with without_autocast(dense):
        sums, *_ = torch.embedding_bag(
            flatten_rows(wide).detach(), col, rowptr, mode=_SUM, per_sample_weights=weight, include_last_offset=True
        )
    return sums.reshape(len(sums), *dense.shape[1:]).to(dense.dtype)


def widen(values: Tensor) -> Tensor:
    """In single precision if they are in half, which sparse products do not take."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def without_autocast(values: Tensor) -> AbstractContextManager[object]:
    """A context in which nothing is rounded to half precision."""
    kind = values.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
