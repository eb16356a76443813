"""Sums of embeddings: one launch forward, and back by products with zeros and ones, without sorting."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_ROWS, _COLUMNS, _ROWS_EACH = 32, 64, 256


def embedding_sum(table: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """See `ops.embedding_sum`."""
    total: Tensor = _EmbeddingSum.apply(values.contiguous(), offsets, table)
    return total


class _EmbeddingSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, offsets: Tensor, table: Tensor) -> Tensor:
        rows, width = len(values), table.shape[1]
        out = table.new_empty(rows, width)
        if rows:
            grid = (triton.cdiv(rows, _ROWS), triton.cdiv(width, _COLUMNS))
            _embedding_sum_forward[grid](values, offsets, table, out, rows, width, values.shape[1], _ROWS, _COLUMNS)
        ctx.save_for_backward(values, offsets)
        ctx.entries = len(table)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, offsets = ctx.saved_tensors
        rows, width = grad.shape
        rows_each = max(_ROWS_EACH, triton.cdiv(triton.cdiv(rows, 64), _ROWS) * _ROWS)
        blocks = triton.cdiv(rows, rows_each)
        partial = grad.new_empty(blocks, ctx.entries, width, dtype=torch.float32)
        entries = max(16, int(triton.next_power_of_2(ctx.entries)))
        tile_entries = min(entries, 64)
        if rows:
            _embedding_sum_backward[blocks, triton.cdiv(width, _COLUMNS), entries // tile_entries](
                values, offsets, grad.contiguous(), partial, rows, width, ctx.entries, rows_each, values.shape[1],
                tile_entries, _ROWS, _COLUMNS,
            )  # fmt: skip
        return None, None, partial.sum(0) if blocks != 1 else partial[0]


@triton.jit(do_not_specialize=["rows"])
def _embedding_sum_forward(
    values, offsets, table, out, rows, width, COUNT: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    row, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    in_rows = row < rows
    mask = in_rows[:, None] & (column < width)[None, :]
    total = tl.zeros((R, C), tl.float32)
    for feature in tl.static_range(COUNT):
        entry = tl.load(values + row * COUNT + feature, mask=in_rows, other=0).to(tl.int64) + tl.load(offsets + feature)
        total += tl.load(table + entry[:, None] * width + column[None, :], mask=mask, other=0).to(tl.float32)
    tl.store(out + row.to(tl.int64)[:, None] * width + column[None, :], total, mask=mask)


@triton.jit(do_not_specialize=["rows", "rows_each"])
def _embedding_sum_backward(
    values, offsets, grad, partial, rows, width, entries, rows_each, COUNT: tl.constexpr,
    V: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    entry = tl.program_id(2) * V + tl.arange(0, V)
    total = tl.zeros((V, C), tl.float32)
    for start in range(0, rows_each, R):
        row = block * rows_each + start + tl.arange(0, R)
        in_rows = row < rows
        mask = in_rows[:, None] & (column < width)[None, :]
        grad_out = tl.load(grad + row.to(tl.int64)[:, None] * width + column[None, :], mask=mask, other=0)
        one_hot = tl.zeros((V, R), tl.float32)
        for feature in tl.static_range(COUNT):
            index = tl.load(values + row * COUNT + feature, mask=in_rows, other=0).to(tl.int64)
            index += tl.load(offsets + feature)
            one_hot += (index[None, :] == entry[:, None]).to(tl.float32)
        total += tl.dot(one_hot, grad_out.to(tl.float32), input_precision="ieee")
    offset = (block * entries + entry[:, None]) * width + column[None, :]
    tl.store(partial + offset, total, mask=(entry < entries)[:, None] & (column < width)[None, :])
