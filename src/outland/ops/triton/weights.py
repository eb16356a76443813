"""The elementwise work of a step of descent on weights: one launch before its second product, one after."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from outland.ops.weights import Descent, TableLayout

_COLUMNS = 256


def dependence_terms(sums: Tensor, weights: Tensor, layout: TableLayout) -> Tensor:
    """See `ops.dependence_terms`."""
    terms, rows = torch.empty_like(sums), len(weights)
    grid = (1 + triton.cdiv(layout.width, _COLUMNS),)
    _dependence_terms[grid](
        sums, weights, terms, rows, *layout, triton.next_power_of_2(rows), _COLUMNS, num_warps=_warps(rows)
    )
    return terms


def descend_weights(
    logits: Tensor, velocity: Tensor, gradient: Tensor, weights: Tensor, valid: Tensor, descent: Descent
) -> Tensor:
    """See `ops.descend_weights`."""
    out, rows = torch.empty_like(weights), len(logits)
    _descend_weights[(1,)](
        logits, velocity, gradient, weights, valid, out, rows, len(velocity), *descent,
        triton.next_power_of_2(rows), num_warps=_warps(rows),
    )  # fmt: skip
    return out


def _warps(rows: int) -> int:
    return 4 if rows <= 512 else 8


@triton.jit(do_not_specialize=["rows"])
def _dependence_terms(
    sums, weights, terms, rows,
    KERNELS: tl.constexpr, FREQUENCIES: tl.constexpr, WIDTH: tl.constexpr, CROSSED: tl.constexpr, OTHERS: tl.constexpr,
    N: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """One program for the rows, and one for some columns of all features."""
    program = tl.program_id(0)
    if program == 0:
        _row_terms(sums, weights, terms, rows, KERNELS, OTHERS, N)
    else:
        features = (1 + KERNELS) * rows
        column = (program - 1) * C + tl.arange(0, C)
        _column_terms(sums + features, terms + features, column, FREQUENCIES, WIDTH, CROSSED, C)


@triton.jit
def _row_terms(sums, weights, terms, rows, KERNELS: tl.constexpr, OTHERS: tl.constexpr, N: tl.constexpr):
    row = tl.arange(0, N)
    mask = row < rows
    weight = tl.load(weights + row, mask=mask, other=0)
    rest = 2 * tl.load(sums + row, mask=mask, other=0)
    total = tl.zeros((N,), tl.float32)
    if OTHERS:
        for k in range(KERNELS):
            total += tl.load(sums + (1 + k) * rows + row, mask=mask, other=0)
    for k in range(KERNELS):
        mean = tl.load(sums + (1 + k) * rows + row, mask=mask, other=0)
        partner = mean
        if OTHERS:
            partner = (total - mean) / 2
        rest += mean * (4 * tl.sum(partner * weight, 0) - 2 * partner)
        tl.store(terms + (1 + k) * rows + row, -4 * weight * partner, mask=mask)
    tl.store(terms + row, rest, mask=mask)


@triton.jit
def _column_terms(
    sums, terms, column, FREQUENCIES: tl.constexpr, WIDTH: tl.constexpr, CROSSED: tl.constexpr, C: tl.constexpr
):
    mask = column < WIDTH
    second = FREQUENCIES * WIDTH + column
    for k in range(FREQUENCIES):
        mean = tl.load(sums + k * WIDTH + column, mask=mask, other=0)
        linear = tl.zeros((C,), tl.float32)
        if CROSSED:
            for j in range(FREQUENCIES):
                other = tl.load(sums + j * WIDTH + column, mask=mask, other=0)
                offset = second + (k * FREQUENCIES + j) * WIDTH
                covariance = tl.load(sums + offset, mask=mask, other=0) - mean * other
                linear += covariance * other
                tl.store(terms + offset, -2 * covariance, mask=mask)
        else:
            offset = second + k * WIDTH
            covariance = tl.load(sums + offset, mask=mask, other=0) - mean * mean
            linear += covariance * mean
            tl.store(terms + offset, -2 * covariance, mask=mask)
        tl.store(terms + k * WIDTH + column, 4 * linear, mask=mask)


@triton.jit
def _simplex(logit, valid):
    top = tl.max(tl.where(valid, logit, -3e38), 0)
    powers = tl.where(valid, tl.exp(tl.where(valid, logit - top, 0)), 0)
    return powers / tl.maximum(tl.sum(powers, 0), 1)


@triton.jit(do_not_specialize=["rows", "batch"])
def _descend_weights(
    logits, velocity, gradient, weights, valid, out, rows, batch, lr, momentum, strength, N: tl.constexpr
):  # fmt: skip
    row = tl.arange(0, N)
    mask, in_batch = row < rows, row < batch
    is_valid = tl.load(valid + row, mask=mask, other=0).to(tl.int1) & mask
    logit = tl.load(logits + row, mask=mask, other=0)
    weight = tl.load(weights + row, mask=mask, other=0)
    grad_weight = tl.load(gradient + row, mask=mask, other=0)
    grad = strength * weight * (grad_weight - tl.sum(weight * grad_weight, 0))
    share = _simplex(logit, is_valid & in_batch)
    grad += 2 * share * (share - tl.sum(share * share, 0))
    speed = momentum * tl.load(velocity + row, mask=in_batch, other=0) + grad
    tl.store(velocity + row, speed, mask=in_batch)
    logit = tl.where(in_batch, logit - lr * speed, logit)
    tl.store(logits + row, logit, mask=in_batch)
    tl.store(out + row, _simplex(logit, is_valid), mask=mask)
