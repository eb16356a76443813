"""Batch norm over the marked rows, ReLU and dropout as one: two launches forward and two back instead of thirty.

The rows are cut into blocks. One launch computes the moments of each block; the next puts them together, every program
for its own columns, and writes the result.
"""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.ops.dropout import DropoutDraws, KernelDraws, activate, kernel_draws
from outland.ops.norm import NormState
from outland.ops.triton import norm_kernels as kernels

TILE = (32, 64, 3)  # rows, columns, and tiles that are read ahead, or 1
WARPS = 4
MOST_BLOCKS = 52  # with 5 or 10 blocks of columns as many programs as an H200 takes at a time, or twice as many


def batch_norm(
    x: Tensor,
    mask: Tensor | None,
    state: NormState,
    relu: bool = False,
    dropout: DropoutDraws | None = None,
    moments: Tensor | None = None,
) -> Tensor:
    """See `ops.batch_norm`; rows that are not marked become 0.

    `moments` `[3, blocks, d]` are those of each block of rows, if they are known already: how many are marked,
    their mean, and their squares about it.
    """
    x, draws = x.contiguous(), kernel_draws(dropout if state.training else None, x.device)
    if not state.training:
        out: Tensor = _FixedNorm.apply(x, mask, state, relu)
    else:
        out = _TrainedNorm.apply(x, mask, state.weight, state.bias, state, relu, draws, moments)
    return activate(out, False, dropout) if draws[1] is None else out


class _TrainedNorm(torch.autograd.Function):
    """By the moments of the batch; `draws` are those of dropout: p, seed and what to add to it."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        mask: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        state: NormState,
        relu: bool,
        draws: KernelDraws,
        parts: Tensor | None,
    ) -> Tensor:
        if parts is None:
            grid, rows_each = _grid(x)
            parts = x.new_empty(3, grid[0], x.shape[1], dtype=torch.float32)
            kernels.norm_moments[grid](x, mask, parts, *x.shape, rows_each, mask is not None, *TILE, num_warps=WARPS)
        out, stats = _normalise(x, mask, state, relu, draws, parts)
        ctx.p, seed, ctx.salt = draws
        ctx.relu = relu
        ctx.save_for_backward(x, mask, weight, bias, stats, seed)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, weight, bias, stats, seed = ctx.saved_tensors
        grad = grad.contiguous()
        grid, rows_each = _grid(x)
        parts = x.new_empty(2, grid[0], x.shape[1], dtype=torch.float32)
        grad_x, grad_weight, grad_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        flags = (mask is not None, ctx.relu, seed is not None, *TILE)
        kernels.norm_grad_sums[grid](
            x,
            mask,
            grad,
            weight,
            bias,
            seed,
            stats,
            parts,
            *x.shape,
            rows_each,
            ctx.p,
            ctx.salt,
            *flags,
            num_warps=WARPS,
        )
        kernels.norm_backward[grid](
            x, mask, grad, weight, bias, seed, stats, parts, grad_x, grad_weight, grad_bias,
            *x.shape, rows_each, grid[0], ctx.p, ctx.salt, *flags, num_warps=WARPS,
        )  # fmt: skip
        return grad_x, None, grad_weight, grad_bias, None, None, None, None


class _FixedNorm(torch.autograd.Function):
    """By the running statistics, which are constants, as weight and bias are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor | None, state: NormState, relu: bool) -> Tensor:
        out, stats = _normalise(x, mask, state, relu, (0.0, None, 0), None)
        ctx.save_for_backward(x, mask, state.weight, state.bias, stats)
        ctx.relu = relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, weight, bias, stats = ctx.saved_tensors
        grad_x, (grid, rows_each) = torch.empty_like(x), _grid(x)
        flags = (mask is not None, ctx.relu, *TILE)
        kernels.fixed_norm_backward[grid](
            x, mask, grad.contiguous(), weight, bias, stats, grad_x, *x.shape, rows_each, *flags, num_warps=WARPS
        )
        return grad_x, None, None, None


def _normalise(
    x: Tensor, mask: Tensor | None, state: NormState, relu: bool, draws: KernelDraws, parts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The result, and mean, 1/deviation and marked rows `[3, d]`; without `parts` by the running statistics."""
    out, (grid, rows_each), (p, seed, salt) = torch.empty_like(x), _grid(x), draws
    stats = x.new_empty(3, x.shape[1], dtype=torch.float32)
    blocks = 1 if parts is None else parts.shape[1]
    running = (state.running_mean, state.running_var, state.num_batches_tracked)
    kernels.norm_forward[grid](
        x, mask, state.weight, state.bias, *running, seed, stats if parts is None else parts, stats, out,
        *x.shape, rows_each, blocks, state.momentum, state.eps, p, salt, parts is not None, mask is not None, relu,
        seed is not None, *TILE, num_warps=WARPS,
    )  # fmt: skip
    return out, stats


def _grid(x: Tensor) -> tuple[tuple[int, int], int]:
    """Blocks of rows and columns, and the rows of a block."""
    (rows, width), (tile_rows, tile_columns, _) = x.shape, TILE
    rows_each = triton.cdiv(triton.cdiv(rows, MOST_BLOCKS), tile_rows) * tile_rows
    return (triton.cdiv(rows, rows_each), triton.cdiv(width, tile_columns)), rows_each
