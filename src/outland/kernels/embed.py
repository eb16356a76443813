"""The sum of one embedding a column: one launch forward, and back by products with zeros and ones, without sorting."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_ROWS, _COLUMNS, _EACH = 32, 64, 256


def embed(values: Tensor, offsets: Tensor, table: Tensor) -> Tensor:
    """Categories `[N, k]` to the sums of their rows of `table` `[V, d]`; column c counts from row `offsets[c]`."""
    total: Tensor = _Embed.apply(values.contiguous(), offsets, table)
    return total


class _Embed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, offsets: Tensor, table: Tensor) -> Tensor:
        rows, width = len(values), table.shape[1]
        out = table.new_empty(rows, width)
        if rows:
            grid = (triton.cdiv(rows, _ROWS), triton.cdiv(width, _COLUMNS))
            _embed[grid](values, offsets, table, out, rows, width, values.shape[1], _ROWS, _COLUMNS)
        ctx.save_for_backward(values, offsets)
        ctx.entries = len(table)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        values, offsets = ctx.saved_tensors
        rows, width = slope.shape
        each = max(_EACH, triton.cdiv(triton.cdiv(rows, 64), _ROWS) * _ROWS)
        blocks = triton.cdiv(rows, each)
        parts = slope.new_empty(blocks, ctx.entries, width, dtype=torch.float32)
        entries = max(16, int(triton.next_power_of_2(ctx.entries)))
        tall = min(entries, 64)
        if rows:
            _embed_back[blocks, triton.cdiv(width, _COLUMNS), entries // tall](
                values, offsets, slope.contiguous(), parts, rows, width, ctx.entries, each, values.shape[1],
                tall, _ROWS, _COLUMNS,
            )  # fmt: skip
        return None, None, parts.sum(0) if blocks != 1 else parts[0]


@triton.jit(do_not_specialize=["rows"])
def _embed(values, offsets, table, out, rows, width, COUNT: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    row, column = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * C + tl.arange(0, C)
    inside = row < rows
    both = inside[:, None] & (column < width)[None, :]
    total = tl.zeros((R, C), tl.float32)
    for one in tl.static_range(COUNT):
        entry = tl.load(values + row * COUNT + one, mask=inside, other=0).to(tl.int64) + tl.load(offsets + one)
        total += tl.load(table + entry[:, None] * width + column[None, :], mask=both, other=0).to(tl.float32)
    tl.store(out + row.to(tl.int64)[:, None] * width + column[None, :], total, mask=both)


@triton.jit(do_not_specialize=["rows", "each"])
def _embed_back(
    values, offsets, slope, parts, rows, width, entries, each, COUNT: tl.constexpr,
    V: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    entry = tl.program_id(2) * V + tl.arange(0, V)
    total = tl.zeros((V, C), tl.float32)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        inside = row < rows
        both = inside[:, None] & (column < width)[None, :]
        change = tl.load(slope + row.to(tl.int64)[:, None] * width + column[None, :], mask=both, other=0)
        hit = tl.zeros((V, R), tl.float32)
        for one in tl.static_range(COUNT):
            found = tl.load(values + row * COUNT + one, mask=inside, other=0).to(tl.int64) + tl.load(offsets + one)
            hit += (found[None, :] == entry[:, None]).to(tl.float32)
        total += tl.dot(hit, change.to(tl.float32), input_precision="ieee")
    place = (block * entries + entry[:, None]) * width + column[None, :]
    tl.store(parts + place, total, mask=(entry < entries)[:, None] & (column < width)[None, :])
