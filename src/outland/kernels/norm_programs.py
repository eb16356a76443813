"""The programs of `kernels.norm`. Each works on a block of rows `block` and a block of columns.

Arguments in common: `rows` and `width` of x; `each`, the rows of a block; R and C, rows and columns of a tile.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(rows, width, row, column):
    """Places of a tile's entries, and which of them are there."""
    return row[:, None] * width + column[None, :], (row < rows)[:, None] & (column < width)[None, :]


@triton.jit
def _real(mask, row, rows, MASKED: tl.constexpr):
    """Which rows count."""
    real = row < rows
    if MASKED:
        real = tl.load(mask + row, mask=real, other=0).to(tl.int1)
    return real


@triton.jit
def _moments_of(x, mask, block, column, rows, width, each, MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Of a block of rows: how many count, their mean, and their squares about it; tile by tile (Chan)."""
    count = tl.zeros((C,), tl.float32)
    mean = tl.zeros((C,), tl.float32)
    squares = tl.zeros((C,), tl.float32)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, there = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & there
        value = tl.load(x + place, mask=real, other=0).to(tl.float32)
        here = tl.sum(real.to(tl.float32), 0)
        middle = tl.sum(value, 0) / tl.maximum(here, 1)
        apart = tl.where(real, value - middle[None, :], 0)
        both = tl.maximum(count + here, 1)
        step = middle - mean
        squares += tl.sum(apart * apart, 0) + step * step * count * here / both
        mean += step * here / both
        count += here
    return count, mean, squares


@triton.jit(do_not_specialize=["rows", "each"])
def moments(x, mask, parts, rows, width, each, MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """The moments of each block of rows."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    count, mean, squares = _moments_of(x, mask, block, column, rows, width, each, MASKED, R, C)
    plane = tl.num_programs(0) * width
    place, there = block * width + column, column < width
    tl.store(parts + place, count, mask=there)
    tl.store(parts + plane + place, mean, mask=there)
    tl.store(parts + 2 * plane + place, squares, mask=there)


@triton.jit(do_not_specialize=["rows", "each", "blocks", "salt"])
def normalise(
    x, mask, weight, bias, running_mean, running_variance, seen, seed, parts, found, out,
    rows, width, each, blocks, momentum, eps, drop, salt,
    TRAINING: tl.constexpr, WHOLE: tl.constexpr, MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Put the blocks' moments together, or find those of the only one; remember them, and write the rows."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    if TRAINING:
        if WHOLE:
            count, mean, total = _moments_of(x, mask, block, column, rows, width, each, MASKED, R, C)
        else:
            plane = blocks * width
            each_part, known = _tile(blocks, width, tl.arange(0, P), column)
            counts = tl.load(parts + each_part, mask=known, other=0)
            means = tl.load(parts + plane + each_part, mask=known, other=0)
            squares = tl.load(parts + 2 * plane + each_part, mask=known, other=0)
            count = tl.sum(counts, 0)
            mean = tl.sum(counts * means, 0) / tl.maximum(count, 1)
            apart = means - mean[None, :]
            total = tl.sum(squares + counts * apart * apart, 0)
        variance = total / tl.maximum(count, 1)
        if block == 0:
            unbiased = variance * count / tl.maximum(count - 1, 1)
            old_mean = tl.load(running_mean + column, mask=there, other=0)
            old_variance = tl.load(running_variance + column, mask=there, other=0)
            tl.store(running_mean + column, old_mean + momentum * (mean - old_mean), mask=there)
            tl.store(running_variance + column, old_variance + momentum * (unbiased - old_variance), mask=there)
            tl.store(found + 2 * width + column, tl.maximum(count, 1), mask=there)
            if tl.program_id(1) == 0:
                tl.store(seen, tl.load(seen) + 1)
    else:
        mean = tl.load(running_mean + column, mask=there, other=0)
        variance = tl.load(running_variance + column, mask=there, other=1)
    scale = tl.rsqrt(variance + eps)
    if block == 0:
        tl.store(found + column, mean, mask=there)
        tl.store(found + width + column, scale, mask=there)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        value = tl.load(x + place, mask=real, other=0).to(tl.float32)
        value = (value - mean[None, :]) * scale[None, :] * times[None, :] + plus[None, :]
        if RELU:
            value = tl.maximum(value, 0)
        if DROP:
            value = tl.where(tl.rand(tl.load(seed) + salt, place) >= drop, value / (1 - drop), 0)
        tl.store(out + place, tl.where(real, value, 0), mask=inside)


@triton.jit
def _before_drop(
    slope, place, real, scaled, times, plus, seed, drop, salt, RELU: tl.constexpr, DROP: tl.constexpr
):  # fmt: skip
    """The slope of a tile before dropout and ReLU."""
    change = tl.load(slope + place, mask=real, other=0).to(tl.float32)
    if DROP:
        change = tl.where(tl.rand(tl.load(seed) + salt, place) >= drop, change / (1 - drop), 0)
    if RELU:
        change = tl.where(scaled * times[None, :] + plus[None, :] > 0, change, 0)
    return change


@triton.jit
def _slopes_of(
    x, mask, slope, weight, bias, seed, found, block, column, rows, width, each, drop, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Of a block of rows: the sums of slopes, and of slopes times normalised values."""
    there = column < width
    mean, scale = tl.load(found + column, mask=there, other=0), tl.load(found + width + column, mask=there, other=0)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    plain = tl.zeros((C,), tl.float32)
    product = tl.zeros((C,), tl.float32)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        scaled = (tl.load(x + place, mask=real, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        change = _before_drop(slope, place, real, scaled, times, plus, seed, drop, salt, RELU, DROP)
        plain += tl.sum(change, 0)
        product += tl.sum(change * scaled, 0)
    return plain, product


@triton.jit(do_not_specialize=["rows", "each", "salt"])
def slopes(
    x, mask, slope, weight, bias, seed, found, parts, rows, width, each, drop, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The sums of each block of rows."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    plain, product = _slopes_of(
        x,
        mask,
        slope,
        weight,
        bias,
        seed,
        found,
        block,
        column,
        rows,
        width,
        each,
        drop,
        salt,
        MASKED,
        RELU,
        DROP,
        R,
        C,
    )
    place, there = block * width + column, column < width
    tl.store(parts + place, plain, mask=there)
    tl.store(parts + tl.num_programs(0) * width + place, product, mask=there)


@triton.jit(do_not_specialize=["rows", "each", "blocks", "salt"])
def back(
    x, mask, slope, weight, bias, seed, found, parts, for_x, for_weight, for_bias,
    rows, width, each, blocks, drop, salt, WHOLE: tl.constexpr,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Put the blocks' sums together, or find those of the only one; write the slopes of rows, weight and bias."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    if WHOLE:
        plain, product = _slopes_of(
            x, mask, slope, weight, bias, seed, found, block, column, rows, width, each, drop, salt,
            MASKED, RELU, DROP, R, C,
        )  # fmt: skip
    else:
        each_part, known = _tile(blocks, width, tl.arange(0, P), column)
        plain = tl.sum(tl.load(parts + each_part, mask=known, other=0), 0)
        product = tl.sum(tl.load(parts + blocks * width + each_part, mask=known, other=0), 0)
    if block == 0:
        tl.store(for_bias + column, plain, mask=there)
        tl.store(for_weight + column, product, mask=there)
    mean, scale = tl.load(found + column, mask=there, other=0), tl.load(found + width + column, mask=there, other=0)
    count = tl.load(found + 2 * width + column, mask=there, other=1)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        scaled = (tl.load(x + place, mask=real, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        change = _before_drop(slope, place, real, scaled, times, plus, seed, drop, salt, RELU, DROP)
        change -= (plain[None, :] + scaled * product[None, :]) / count[None, :]
        tl.store(for_x + place, tl.where(real, change * scale[None, :] * times[None, :], 0), mask=inside)


@triton.jit(do_not_specialize=["rows", "each"])
def back_fixed(
    x, mask, slope, weight, bias, found, for_x, rows, width, each,
    MASKED: tl.constexpr, RELU: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The slopes of the rows where mean and variance are constants."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    there = column < width
    mean, scale = tl.load(found + column, mask=there, other=0), tl.load(found + width + column, mask=there, other=0)
    times, plus = tl.load(weight + column, mask=there, other=0), tl.load(bias + column, mask=there, other=0)
    for start in range(0, each, R):
        row = block * each + start + tl.arange(0, R)
        place, inside = _tile(rows, width, row, column)
        real = _real(mask, row, rows, MASKED)[:, None] & inside
        scaled = (tl.load(x + place, mask=real, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
        change = _before_drop(slope, place, real, scaled, times, plus, None, 0.0, 0, RELU, False)
        tl.store(for_x + place, tl.where(real, change * scale[None, :] * times[None, :], 0), mask=inside)
