"""Batch norm over the real rows, ReLU and dropout as one: at most two launches forward and two back, where thirty were.

Many rows are cut into at most 64 blocks. One launch finds each block's moments; the next puts them together, every
program for its own columns, and writes the result. Few rows are one block, and one launch does all.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland.kernels.norm_programs import back, back_fixed, moments, normalise, slopes

_TILE_ROWS, _COLUMNS, _MOST_BLOCKS = 64, 32, 64
_FEW, _FEW_COLUMNS = 2048, 8  # rows that one program holds, and in how many columns


@dataclass(frozen=True)
class Normed:
    """What follows a linear layer.

    Args:
        weight, bias: of batch norm `[d]`.
        mean, variance: its running averages `[d]`, moved in place while training.
        count: batches it has seen, a number in a tensor.
        momentum, eps: of batch norm.
        training: normalise by this batch, and not by the running averages.
        relu: whether one follows.
        drop: chance of each entry to become 0 after that.
        seed: of those draws, a number in a tensor; None where nothing is dropped.
        salt: to be added to it.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    variance: Tensor
    count: Tensor
    momentum: float
    eps: float
    training: bool
    relu: bool
    drop: float
    seed: Tensor | None
    salt: int = 0


def norm_relu_drop(x: Tensor, mask: Tensor | None, plan: Normed) -> Tensor:
    """`x [N, d]` normalised over the rows that `mask [N]` marks, cut at 0, thinned; rows it does not mark become 0."""
    run = _Trained if plan.training else _Fixed
    out: Tensor = run.apply(x.contiguous(), mask, plan.weight, plan.bias, plan)
    return out


class _Trained(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor | None, weight: Tensor, bias: Tensor, plan: Normed) -> Tensor:
        out, found = torch.empty_like(x), x.new_empty(3, x.shape[1], dtype=torch.float32)  # mean, 1/deviation, rows
        way = _Way.of(x)
        parts = None
        if not way.whole:
            parts = x.new_empty(3, way.grid[0], x.shape[1], dtype=torch.float32)
            moments[way.grid](x, mask, parts, *x.shape, way.each, mask is not None, *way.tile)
        normalise[way.grid](
            x, mask, weight, bias, plan.mean, plan.variance, plan.count, plan.seed, parts, found, out,
            *x.shape, way.each, way.grid[0], plan.momentum, plan.eps, plan.drop, plan.salt,
            True, way.whole, mask is not None, plan.relu, plan.seed is not None, *way.tile, _power(way.grid[0]),
            num_warps=way.warps,
        )  # fmt: skip
        ctx.save_for_backward(x, mask, weight, bias, found, plan.seed)
        ctx.plan = plan
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, weight, bias, found, seed = ctx.saved_tensors
        plan, slope, way = ctx.plan, slope.contiguous(), _Way.of(x)
        for_x, for_weight, for_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        flags = (mask is not None, plan.relu, seed is not None, *way.tile)
        parts = None
        if not way.whole:
            parts = x.new_empty(2, way.grid[0], x.shape[1], dtype=torch.float32)
            slopes[way.grid](
                x, mask, slope, weight, bias, seed, found, parts, *x.shape, way.each, plan.drop, plan.salt, *flags
            )
        back[way.grid](
            x, mask, slope, weight, bias, seed, found, parts, for_x, for_weight, for_bias,
            *x.shape, way.each, way.grid[0], plan.drop, plan.salt, way.whole, *flags, _power(way.grid[0]),
            num_warps=way.warps,
        )  # fmt: skip
        return for_x, None, for_weight, for_bias, None


class _Fixed(torch.autograd.Function):
    """By the running averages, which are constants, as the weights are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor | None, weight: Tensor, bias: Tensor, plan: Normed) -> Tensor:
        out, found, way = torch.empty_like(x), x.new_empty(3, x.shape[1], dtype=torch.float32), _Way.tiled(x)
        normalise[way.grid](
            x, mask, weight, bias, plan.mean, plan.variance, plan.count, None, None, found, out,
            *x.shape, way.each, 1, plan.momentum, plan.eps, 0.0, 0,
            False, False, mask is not None, plan.relu, False, *way.tile, 1,
        )  # fmt: skip
        ctx.save_for_backward(x, mask, weight, bias, found)
        ctx.relu = plan.relu
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, mask, weight, bias, found = ctx.saved_tensors
        for_x, way = torch.empty_like(x), _Way.tiled(x)
        flags = (mask is not None, ctx.relu, *way.tile)
        back_fixed[way.grid](x, mask, slope.contiguous(), weight, bias, found, for_x, *x.shape, way.each, *flags)
        return for_x, None, None, None, None


@dataclass(frozen=True)
class _Way:
    """How the work is cut up: blocks of rows and columns, rows of a block, rows and columns of a tile."""

    grid: tuple[int, int]
    each: int
    tile: tuple[int, int]
    whole: bool = False  # whether one block has all rows
    warps: int = 4

    @classmethod
    def of(cls, x: Tensor) -> "_Way":
        """For sums over all rows."""
        rows, width = x.shape
        if rows > _FEW:
            return cls.tiled(x)
        tall = max(_TILE_ROWS, _power(rows))
        return cls((1, triton.cdiv(width, _FEW_COLUMNS)), tall, (tall, _FEW_COLUMNS), True, 8 if tall > 512 else 4)

    @classmethod
    def tiled(cls, x: Tensor) -> "_Way":
        """For what each row needs nothing of the others for, or has it from a launch before."""
        rows, width = x.shape
        each = triton.cdiv(triton.cdiv(rows, _MOST_BLOCKS), _TILE_ROWS) * _TILE_ROWS
        return cls((triton.cdiv(rows, each), triton.cdiv(width, _COLUMNS)), each, (_TILE_ROWS, _COLUMNS))


def _power(number: int) -> int:
    return int(triton.next_power_of_2(number))
