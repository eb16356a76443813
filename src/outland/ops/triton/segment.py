"""Sums of grouped rows, one program a group."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.csr import EdgeCSR, Segments, flatten_rows
from outland.ops.segment import GatherRows, ScatterRows


def gather_rows(values: Tensor, index: Tensor, csr: EdgeCSR) -> Tensor:
    """See `ops.gather_rows`."""
    rows: Tensor = GatherRows.apply(values, index, csr, segment_sum)
    return rows


def scatter_rows(values: Tensor, index: Tensor, num_rows: int, csr: EdgeCSR) -> Tensor:
    """See `ops.scatter_rows`."""
    total: Tensor = ScatterRows.apply(values, index, csr.rowptr, csr.perm, segment_sum)
    return total


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
    block = int(triton.next_power_of_2(width if whole else min(width, 128)))
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
    values, rowptr, perm, out, width, MEAN: tl.constexpr, PERM: tl.constexpr, K: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    group, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    in_width = column < width
    total = tl.zeros((C,), tl.float32)
    first, last = tl.load(rowptr + group), tl.load(rowptr + group + 1)
    for start in range(first, last, K):
        position = start + tl.arange(0, K)
        in_group = position < last
        row = position
        if PERM:
            row = tl.load(perm + position, mask=in_group, other=0)
        mask = in_group[:, None] & in_width[None, :]
        total += tl.sum(tl.load(values + row[:, None] * width + column[None, :], mask=mask, other=0).to(tl.float32), 0)
    if MEAN:
        total /= tl.maximum(last - first, 1).to(tl.float32)
    tl.store(out + group * width + column, total, mask=in_width)


@triton.jit(do_not_specialize=["groups", "rows"])
def _broadcast(values, index, ptr, out, groups, rows, width, MEAN: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Each row's group's values, divided by the group's size for a mean; 0 for a row of no group."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.program_id(1) * C + tl.arange(0, C)
    in_rows = row < rows
    group = tl.load(index + row, mask=in_rows, other=0)
    clamped = tl.minimum(group, groups - 1)
    mask = in_rows[:, None] & (column < width)[None, :]
    value = tl.load(values + clamped[:, None] * width + column[None, :], mask=mask, other=0).to(tl.float32)
    if MEAN:
        count = tl.load(ptr + clamped + 1, mask=in_rows, other=1) - tl.load(ptr + clamped, mask=in_rows, other=0)
        value /= tl.maximum(count, 1).to(tl.float32)[:, None]
    value = tl.where((group < groups)[:, None], value, 0)
    tl.store(out + row[:, None] * width + column[None, :], value, mask=mask)
