"""What batch norm launches; rows come in tiles of R, columns of C.

Widths are known when a kernel is compiled, so that several numbers are read at once; sums are kept for each entry of a
tile and put together after the last.
"""

import triton
import triton.language as tl

_PARTS = tl.constexpr(32)  # blocks of rows that are put together at a time


@triton.jit
def tile_at(rows, row, column, WIDTH: tl.constexpr):
    """Offsets of a tile's entries, and which of them exist."""
    return row[:, None] * WIDTH + column[None, :], (row < rows)[:, None] & (column < WIDTH)[None, :]


@triton.jit
def _marked_rows(mask, rows, row, MASKED: tl.constexpr):
    """Which rows the mask marks."""
    marked = row < rows
    if MASKED:
        marked = tl.load(mask + row, mask=marked, other=0).to(tl.int1)
    return marked


@triton.jit
def _row_from_last(block, rows_each, start, R: tl.constexpr):
    """Rows of a tile, from a block's last to its first: what the launch before read last may still be cached."""
    return block * rows_each + rows_each - R - start + tl.arange(0, R)


@triton.jit
def _marked_tile(mask, rows, row, column, WIDTH: tl.constexpr, MASKED: tl.constexpr):
    """Offsets of a tile's entries, which of them exist, and which are of rows that the mask marks."""
    offset, in_tile = tile_at(rows, row, column, WIDTH)
    return offset, in_tile, _marked_rows(mask, rows, row, MASKED)[:, None] & in_tile


@triton.jit
def _pair(first, second, column, valid):
    """Two numbers of each column: mean and 1/deviation, or weight and bias."""
    return tl.load(first + column, mask=valid, other=0), tl.load(second + column, mask=valid, other=0)


@triton.jit
def drop_tile(values, seed, salt, p, row, WIDTH: tl.constexpr, C: tl.constexpr):
    """A tile of which each entry is 0 with probability `p`, and else scaled up.

    A call of Philox, in the seven rounds that pass tests of randomness, gives the draws of four columns.
    """
    group = tl.program_id(1) * (C // 4) + tl.arange(0, C // 4)
    first, second, third, fourth = tl.randint4x(
        tl.load(seed) + salt, row[:, None] * tl.cdiv(WIDTH, 4) + group[None, :], n_rounds=7
    )
    draws = tl.join(tl.join(first, third), tl.join(second, fourth)).reshape(values.shape)
    threshold = (tl.full((1, 1), p, tl.float32) * 2147483648.0).to(tl.uint32)
    return tl.where((draws.to(tl.uint32) >> 1) < threshold, 0, values * (1 / (1 - p)))


@triton.jit(do_not_specialize=["rows", "rows_each"])
def norm_moments(
    x, mask, parts, rows, WIDTH: tl.constexpr, rows_each,
    MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Of each block of rows: how many are marked, their mean, and their squares about it.

    Sums are of what is left of each row when the block's first one is subtracted, which keeps their digits.
    """
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid, first = column < WIDTH, block * rows_each
    is_real = valid & _marked_rows(mask, rows, first + tl.zeros_like(column), MASKED)
    pivot = tl.load(x + first * WIDTH + column, mask=is_real, other=0).to(tl.float32)
    counts = tl.zeros((R,), tl.float32)
    sums = tl.zeros((R, C), tl.float32)
    squares = tl.zeros((R, C), tl.float32)
    for start in tl.range(0, rows_each, R, num_stages=S):
        row = first + start + tl.arange(0, R)
        real = _marked_rows(mask, rows, row, MASKED)
        marked = real[:, None] & valid[None, :]
        value = tl.load(x + row[:, None] * WIDTH + column[None, :], mask=marked, other=0).to(tl.float32)
        value = tl.where(marked, value - pivot[None, :], 0)
        counts += real.to(tl.float32)
        sums += value
        squares += value * value
    count, total = tl.sum(counts, 0), tl.sum(sums, 0)
    step = total / tl.maximum(count, 1)
    offset, plane = block * WIDTH + column, tl.num_programs(0) * WIDTH
    about = tl.sum(squares, 0) - step * total
    tl.store(parts + offset, tl.zeros((C,), tl.float32) + count, mask=valid)
    tl.store(parts + plane + offset, pivot + step, mask=valid)
    tl.store(parts + 2 * plane + offset, tl.where(about < 0, 0, about), mask=valid)


@triton.jit
def _combine(parts, blocks, column, WIDTH: tl.constexpr, C: tl.constexpr):
    """Count, mean and variance of all rows, from the moments of their blocks; about the first block's mean."""
    plane, valid = blocks * WIDTH, column < WIDTH
    pivot = tl.load(parts + plane + column, mask=valid, other=0)
    counts = tl.zeros((_PARTS,), tl.float32)
    sums = tl.zeros((_PARTS, C), tl.float32)
    squares = tl.zeros((_PARTS, C), tl.float32)
    for start in range(0, blocks, _PARTS):
        block = start + tl.arange(0, _PARTS)
        offset, in_parts = tile_at(blocks, block, column, WIDTH)
        count = tl.load(parts + block * WIDTH, mask=block < blocks, other=0)
        away = tl.load(parts + plane + offset, mask=in_parts, other=0) - pivot[None, :]
        counts += count
        sums += count[:, None] * away
        squares += count[:, None] * away * away + tl.load(parts + 2 * plane + offset, mask=in_parts, other=0)
    count = tl.sum(counts, 0)
    step = tl.sum(sums, 0) / tl.maximum(count, 1)
    variance = tl.sum(squares, 0) / tl.maximum(count, 1) - step * step
    return count, pivot + step, tl.where(variance < 0, 0, variance)


@triton.jit(do_not_specialize=["rows", "rows_each", "blocks", "salt"])
def norm_forward(
    x, mask, weight, bias, running_mean, running_variance, num_batches, seed, parts, stats, out,
    rows, WIDTH: tl.constexpr, rows_each, blocks, momentum, eps, p, salt,
    TRAINING: tl.constexpr, MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Combine the blocks' moments, update the running statistics, and write the rows."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < WIDTH
    if TRAINING:
        count, mean, variance = _combine(parts, blocks, column, WIDTH, C)
        if block == 0:
            unbiased = variance * count / tl.maximum(count - 1, 1)
            old_mean = tl.load(running_mean + column, mask=valid, other=0)
            old_variance = tl.load(running_variance + column, mask=valid, other=0)
            tl.store(running_mean + column, old_mean + momentum * (mean - old_mean), mask=valid)
            tl.store(running_variance + column, old_variance + momentum * (unbiased - old_variance), mask=valid)
            tl.store(stats + 2 * WIDTH + column, tl.maximum(count, 1), mask=valid)
            if tl.program_id(1) == 0:
                tl.store(num_batches, tl.load(num_batches) + 1)
    else:
        mean = tl.load(running_mean + column, mask=valid, other=0)
        variance = tl.load(running_variance + column, mask=valid, other=1)
    scale = tl.rsqrt(variance + eps)
    if block == 0:
        tl.store(stats + column, mean, mask=valid)
        tl.store(stats + WIDTH + column, scale, mask=valid)
    gain, shift = _pair(weight, bias, column, valid)
    for start in tl.range(0, rows_each, R, num_stages=S):
        row = _row_from_last(block, rows_each, start, R)
        offset, in_tile, marked = _marked_tile(mask, rows, row, column, WIDTH, MASKED)
        value = tl.load(x + offset, mask=marked, other=0).to(tl.float32)
        value = (value - mean[None, :]) * scale[None, :] * gain[None, :] + shift[None, :]
        if RELU:
            value = tl.where(value < 0, 0, value)  # not a maximum, which would make 0 of NaN
        if DROP:
            value = drop_tile(value, seed, salt, p, row, WIDTH, C)
        tl.store(out + offset, tl.where(marked, value, 0), mask=in_tile)


@triton.jit
def _scaled(x, mask, row, rows, column, mean, scale, WIDTH: tl.constexpr, MASKED: tl.constexpr):
    """Of a tile: offsets, which entries exist, which are marked, and their normalised values."""
    offset, in_tile, marked = _marked_tile(mask, rows, row, column, WIDTH, MASKED)
    scaled = (tl.load(x + offset, mask=marked, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    return offset, in_tile, marked, scaled


@triton.jit
def _activation_backward(
    grad, offset, marked, scaled, gain, shift, seed, p, salt, row,
    WIDTH: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient of a tile before dropout and ReLU."""
    grad_out = tl.load(grad + offset, mask=marked, other=0).to(tl.float32)
    if DROP:
        grad_out = drop_tile(grad_out, seed, salt, p, row, WIDTH, C)
    if RELU:
        grad_out = tl.where(scaled * gain[None, :] + shift[None, :] > 0, grad_out, 0)
    return grad_out


@triton.jit(do_not_specialize=["rows", "rows_each", "salt"])
def norm_grad_sums(
    x, mask, grad, weight, bias, seed, stats, parts, rows, WIDTH: tl.constexpr, rows_each, p, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Of each block of rows: the sums of gradients, and of gradients times normalised values."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < WIDTH
    mean, scale = _pair(stats, stats + WIDTH, column, valid)
    gain, shift = _pair(weight, bias, column, valid)
    grads = tl.zeros((R, C), tl.float32)
    products = tl.zeros((R, C), tl.float32)
    for start in tl.range(0, rows_each, R, num_stages=S):
        row = block * rows_each + start + tl.arange(0, R)
        offset, _, marked, scaled = _scaled(x, mask, row, rows, column, mean, scale, WIDTH, MASKED)
        grad_out = _activation_backward(
            grad, offset, marked, scaled, gain, shift, seed, p, salt, row, WIDTH, RELU, DROP, C
        )
        grads += grad_out
        products += grad_out * scaled
    offset = block * WIDTH + column
    tl.store(parts + offset, tl.sum(grads, 0), mask=valid)
    tl.store(parts + tl.num_programs(0) * WIDTH + offset, tl.sum(products, 0), mask=valid)


@triton.jit
def _sum_parts(parts, blocks, column, WIDTH: tl.constexpr, C: tl.constexpr):
    """Both sums over the blocks."""
    grads = tl.zeros((_PARTS, C), tl.float32)
    products = tl.zeros((_PARTS, C), tl.float32)
    for start in range(0, blocks, _PARTS):
        part, in_parts = tile_at(blocks, start + tl.arange(0, _PARTS), column, WIDTH)
        grads += tl.load(parts + part, mask=in_parts, other=0)
        products += tl.load(parts + blocks * WIDTH + part, mask=in_parts, other=0)
    return tl.sum(grads, 0), tl.sum(products, 0)


@triton.jit(do_not_specialize=["rows", "rows_each", "blocks", "salt"])
def norm_backward(
    x, mask, grad, weight, bias, seed, stats, parts, grad_x, grad_weight, grad_bias,
    rows, WIDTH: tl.constexpr, rows_each, blocks, p, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Combine the blocks' sums and write the gradients of the rows, the weight and the bias."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < WIDTH
    grad_sum, product_sum = _sum_parts(parts, blocks, column, WIDTH, C)
    if block == 0:
        tl.store(grad_bias + column, grad_sum, mask=valid)
        tl.store(grad_weight + column, product_sum, mask=valid)
    mean, scale = _pair(stats, stats + WIDTH, column, valid)
    count = tl.load(stats + 2 * WIDTH + column, mask=valid, other=1)
    gain, shift = _pair(weight, bias, column, valid)
    grad_mean, product_mean = grad_sum / count, product_sum / count
    for start in tl.range(0, rows_each, R, num_stages=S):
        row = _row_from_last(block, rows_each, start, R)
        offset, in_tile, marked, scaled = _scaled(x, mask, row, rows, column, mean, scale, WIDTH, MASKED)
        grad_out = _activation_backward(
            grad, offset, marked, scaled, gain, shift, seed, p, salt, row, WIDTH, RELU, DROP, C
        )
        grad_out -= grad_mean[None, :] + scaled * product_mean[None, :]
        tl.store(grad_x + offset, tl.where(marked, grad_out * scale[None, :] * gain[None, :], 0), mask=in_tile)


@triton.jit(do_not_specialize=["rows", "rows_each"])
def fixed_norm_backward(
    x, mask, grad, weight, bias, stats, grad_x, rows, WIDTH: tl.constexpr, rows_each,
    MASKED: tl.constexpr, RELU: tl.constexpr, R: tl.constexpr, C: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """The gradients of the rows where mean and variance are constants."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < WIDTH
    mean, scale = _pair(stats, stats + WIDTH, column, valid)
    gain, shift = _pair(weight, bias, column, valid)
    for start in tl.range(0, rows_each, R, num_stages=S):
        row = block * rows_each + start + tl.arange(0, R)
        offset, in_tile, marked, scaled = _scaled(x, mask, row, rows, column, mean, scale, WIDTH, MASKED)
        grad_out = _activation_backward(
            grad, offset, marked, scaled, gain, shift, None, 0.0, 0, row, WIDTH, RELU, False, C
        )
        tl.store(grad_x + offset, tl.where(marked, grad_out * scale[None, :] * gain[None, :], 0), mask=in_tile)
