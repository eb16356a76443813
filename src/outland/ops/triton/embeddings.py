"""Sums of embeddings, one launch each way: they go back by products with zeros and ones, without sorting."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.triton.norm_kernels import tile_at

ROWS, COLUMNS = 32, 64  # of a tile
_ROWS_EACH = 128  # of a program back, at least


def embedding_sum(table: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """See `ops.embedding_sum`; under autocast in its precision, as the layers after it would round."""
    return _EmbeddingSum.apply(values.contiguous(), offsets, table)


class _EmbeddingSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, offsets: Tensor, table: Tensor) -> Tensor:
        rows, width = len(values), table.shape[1]
        kind = table.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else table.dtype
        out = table.new_empty(rows, width, dtype=dtype)
        if rows:
            grid = (triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS))
            _embedding_sum_forward[grid](values, offsets, table, out, rows, width, values.shape[1], ROWS, COLUMNS)
        ctx.save_for_backward(values, offsets)
        ctx.entries = len(table)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, offsets = ctx.saved_tensors
        rows, width = grad.shape
        parts, rows_each, grid, tile_entries = table_blocks(grad, rows, ctx.entries, width)
        if rows:
            _embedding_sum_backward[grid](
                values, offsets, grad.contiguous(), parts, rows, width, ctx.entries, rows_each, values.shape[1],
                tile_entries, ROWS, COLUMNS,
            )  # fmt: skip
        return None, None, parts.sum(0) if len(parts) != 1 else parts[0]


def table_blocks(like: Tensor, rows: int, entries: int, width: int) -> tuple[Tensor, int, tuple[int, int, int], int]:
    """How the gradient of a table is divided among programs, by rows, columns and entries of the table.

    Returns:
        The parts of blocks of rows, to be added up `[blocks, entries, width]`; the rows of a block; the grid; the
        entries of a program.
    """
    most_blocks = 128 if entries > 64 else 256  # each writes a table
    rows_each = max(_ROWS_EACH, triton.cdiv(triton.cdiv(rows, most_blocks), ROWS) * ROWS)
    blocks, padded = triton.cdiv(rows, rows_each), max(16, triton.next_power_of_2(entries))
    tile_entries = min(padded, 64)
    parts = like.new_empty(blocks, entries, width, dtype=torch.float32)
    return parts, rows_each, (blocks, triton.cdiv(width, COLUMNS), padded // tile_entries), tile_entries


@triton.jit
def entries_at(values, offsets, row, in_rows, FEATURE: tl.constexpr, COUNT: tl.constexpr):
    """The entries of the table that some rows have of a feature."""
    return tl.load(values + row * COUNT + FEATURE, mask=in_rows, other=0).to(tl.int64) + tl.load(offsets + FEATURE)


@triton.jit
def embedded_tile(table, values, offsets, row, in_rows, column, mask, WIDTH: tl.constexpr, COUNT: tl.constexpr):
    """Sums of embeddings of some rows, in some columns."""
    total = tl.zeros(mask.shape, tl.float32)
    for feature in tl.static_range(COUNT):
        entry = entries_at(values, offsets, row, in_rows, feature, COUNT)
        total += tl.load(table + entry[:, None] * WIDTH + column[None, :], mask=mask, other=0).to(tl.float32)
    return total


@triton.jit
def counted_entries(
    values, offsets, row, in_rows, entry, COUNT: tl.constexpr, V: tl.constexpr, R: tl.constexpr
):  # fmt: skip
    """How often some rows have each entry of the table `[V, R]`."""
    counts = tl.zeros((V, R), tl.float32)
    for feature in tl.static_range(COUNT):
        index = entries_at(values, offsets, row, in_rows, feature, COUNT)
        counts += (index[None, :] == entry[:, None]).to(tl.float32)
    return counts


@triton.jit(do_not_specialize=["rows"])
def _embedding_sum_forward(
    values, offsets, table, out, rows, WIDTH: tl.constexpr, COUNT: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    row, column = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    offset, mask = tile_at(rows, row, column, WIDTH)
    total = embedded_tile(table, values, offsets, row, row < rows, column, mask, WIDTH, COUNT)
    tl.store(out + offset, total, mask=mask)


@triton.jit
def store_part(parts, total, entry, entries, column, WIDTH: tl.constexpr):
    """Write a program's part of a table."""
    offset, mask = tile_at(entries, entry, column, WIDTH)
    tl.store(parts + tl.program_id(0) * entries * WIDTH + offset, total, mask=mask)


@triton.jit(do_not_specialize=["rows", "rows_each"])
def _embedding_sum_backward(
    values, offsets, grad, parts, rows, WIDTH: tl.constexpr, entries, rows_each, COUNT: tl.constexpr,
    V: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    block, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    entry = tl.program_id(2) * V + tl.arange(0, V)
    total = tl.zeros((V, C), tl.float32)
    for start in range(0, rows_each, R):
        row = block * rows_each + start + tl.arange(0, R)
        offset, mask = tile_at(rows, row, column, WIDTH)
        grad_out = tl.load(grad + offset, mask=mask, other=0).to(tl.float32)
        counts = counted_entries(values, offsets, row, row < rows, entry, COUNT, V, R)
        total += tl.dot(counts, grad_out, input_precision="ieee")
    store_part(parts, total, entry, entries, column, WIDTH)
