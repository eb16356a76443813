"""Sums of grouped rows, one program a group; means and scaled rows, one launch each way."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import EdgeCSR, Segments, flatten_rows
from outland.ops.rows import GatherRows, ScatterRows

_TILE_ROWS = 4  # of scaled rows


def gather_rows(values: Tensor, index: Tensor, csr: EdgeCSR) -> Tensor:
    """See `ops.gather_rows`."""
    return GatherRows.apply(values, index, csr, segment_sum)


def scatter_rows(values: Tensor, index: Tensor, num_rows: int, csr: EdgeCSR) -> Tensor:
    """See `ops.scatter_rows`."""
    return ScatterRows.apply(values, index, csr.rowptr, csr.perm, segment_sum)


def pool(values: Tensor, segments: Segments, mean: bool = False) -> Tensor:
    """See `ops.pool`."""
    batch, ptr, sizes, _ = segments
    graphs = len(sizes)
    assert ptr is not None
    total: Tensor = _Pool.apply(flatten_rows(values), batch, ptr[: graphs + 1], mean)
    return total.reshape(graphs, *values.shape[1:])


def segment_sum(values: Tensor, rowptr: Tensor, perm: Tensor | None, mean: bool = False) -> Tensor:
    """Sum, or mean, of the rows `[E, ...]` of each group; an empty group has 0. No gradient."""
    rows, count = flatten_rows(values).contiguous(), len(rowptr) - 1
    out = rows.new_empty(count, rows.shape[1])
    block, grid = column_blocks(count, rows.shape[1])
    depth = rows_at_once(rows, count, 1024 // block)
    _segment_sum[grid](rows, rowptr, perm, out, rows.shape[1], mean, perm is not None, depth, block)
    return out.reshape(count, *values.shape[1:])


def column_blocks(rows: int, width: int, whole: bool = False) -> tuple[int, tuple[int, int]]:
    """Columns of one program, and the grid; `whole` is one program for all columns."""
    block = triton.next_power_of_2(width if whole else min(width, 128))
    return block, (rows, triton.cdiv(width, block))


def rows_at_once(entries: Tensor, groups: int, most: int = 4) -> int:
    """Rows that a program reads at a time: about as many as a group has."""
    return int(min(most, max(2, triton.next_power_of_2(len(entries) // max(groups, 1)))))


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, ptr: Tensor, mean: bool) -> Tensor:
        ctx.save_for_backward(index, ptr)
        ctx.mean = mean
        return segment_sum(values, ptr, None, mean)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        index, ptr = ctx.saved_tensors
        out = grad.new_empty(len(index), grad.shape[1])
        block, (rows, blocks) = column_blocks(len(index), grad.shape[1])
        tile_rows = max(1, 512 // block)
        _broadcast[triton.cdiv(rows, tile_rows), blocks](
            grad.contiguous(), index, ptr, out, len(grad), rows, grad.shape[1], ctx.mean, tile_rows, block
        )
        return out, None, None, None


@triton.jit
def _segment_sum(
    values, rowptr, perm, out,
    WIDTH: tl.constexpr, MEAN: tl.constexpr, PERM: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    group, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < WIDTH
    total = tl.zeros((C,), tl.float32)
    first, last = tl.load(rowptr + group), tl.load(rowptr + group + 1)
    for start in range(first, last, K):
        position = start + tl.arange(0, K)
        in_group = position < last
        row = position
        if PERM:
            row = tl.load(perm + position, mask=in_group, other=0)
        mask = in_group[:, None] & in_width[None, :]
        total += tl.sum(tl.load(values + row[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32), 0)
    if MEAN:
        total /= tl.maximum(last - first, 1).to(tl.float32)
    tl.store(out + group * WIDTH + column, total, mask=in_width)


@triton.jit(do_not_specialize=["groups", "rows"])
def _broadcast(
    values, index, ptr, out, groups, rows, WIDTH: tl.constexpr, MEAN: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    """Each row's group's values, divided by the group's size for a mean; 0 for a row of no group."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.program_id(1) * C + tl.arange(0, C)
    in_rows = row < rows
    group = tl.load(index + row, mask=in_rows, other=0)
    clamped = tl.minimum(group, groups - 1)
    mask = in_rows[:, None] & (column < WIDTH)[None, :]
    value = tl.load(values + clamped[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
    if MEAN:
        count = tl.load(ptr + clamped + 1, mask=in_rows, other=1) - tl.load(ptr + clamped, mask=in_rows, other=0)
        value /= tl.maximum(count, 1).to(tl.float32)[:, None]
    value = tl.where((group < groups)[:, None], value, 0)
    tl.store(out + row[:, None] * WIDTH + column[None, :], value, mask=mask)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """See `ops.masked_mean`, for `values` `[B]`."""
    return _MaskedMean.apply(values.contiguous(), mask.contiguous())


class _MaskedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor) -> Tensor:
        out = values.new_empty(())
        _masked_mean_forward[(1,)](values, mask, out, len(values), triton.next_power_of_2(len(values)))
        ctx.save_for_backward(mask)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        out = grad.new_empty(len(mask))
        _masked_mean_backward[(1,)](grad, mask, out, len(mask), triton.next_power_of_2(len(mask)))
        return out, None


@triton.jit(do_not_specialize=["rows"])
def _masked_mean_forward(values, mask, out, rows, R: tl.constexpr):
    row = tl.arange(0, R)
    marked = tl.load(mask + row, mask=row < rows, other=0).to(tl.int1)
    total = tl.sum(tl.load(values + row, mask=marked, other=0).to(tl.float32), 0)
    tl.store(out, total / tl.maximum(tl.sum(marked.to(tl.float32), 0), 1))


@triton.jit(do_not_specialize=["rows"])
def _masked_mean_backward(grad, mask, out, rows, R: tl.constexpr):
    row = tl.arange(0, R)
    marked = tl.load(mask + row, mask=row < rows, other=0).to(tl.float32)
    share = tl.load(grad).to(tl.float32) / tl.maximum(tl.sum(marked, 0), 1)
    tl.store(out + row, share * marked, mask=row < rows)


def scale_rows(x: Tensor, weight: Tensor) -> Tensor:
    """See `ops.scale_rows`."""
    return _ScaleRows.apply(x.contiguous(), weight)


class _ScaleRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight[:, None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        grad_x = torch.empty_like(x) if needs_x else None
        grad_weight = torch.empty_like(weight) if needs_weight else None
        if len(x):
            _scale_rows_backward[(triton.cdiv(len(x), _TILE_ROWS),)](
                x, weight.contiguous(), grad.contiguous(), grad_x, grad_weight, *x.shape,
                needs_x, needs_weight, _TILE_ROWS, min(512, triton.next_power_of_2(x.shape[1])),
            )  # fmt: skip
        return grad_x, grad_weight


@triton.jit(do_not_specialize=["rows"])
def _scale_rows_backward(
    x, weight, grad, grad_x, grad_weight, rows, WIDTH: tl.constexpr,
    GRAD_X: tl.constexpr, GRAD_WEIGHT: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * R + tl.arange(0, R)
    in_rows = row < rows
    scale = tl.load(weight + row, mask=in_rows, other=0).to(tl.float32)
    total = tl.zeros((R,), tl.float32)
    for start in range(0, WIDTH, C):
        column = start + tl.arange(0, C)
        offset, mask = row.to(tl.int64)[:, None] * WIDTH + column[None, :], in_rows[:, None] & (column < WIDTH)[None, :]
        grad_out = tl.load(grad + offset, mask=mask, other=0).to(tl.float32)
        if GRAD_X:
            tl.store(grad_x + offset, grad_out * scale[:, None], mask=mask)
        if GRAD_WEIGHT:
            total += tl.sum(grad_out * tl.load(x + offset, mask=mask, other=0).to(tl.float32), 1)
    if GRAD_WEIGHT:
        tl.store(grad_weight + row, total, mask=in_rows)
