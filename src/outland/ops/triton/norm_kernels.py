"""What batch norm launches; rows come in tiles of R, columns of C, and the blocks of rows in P."""

import triton
import triton.language as tl


@triton.jit
def _tile(rows, width, row, column):
    """Offsets of a tile's entries, and which of them exist."""
    return row[:, None] * width + column[None, :], (row < rows)[:, None] & (column < width)[None, :]


@triton.jit
def _marked_tile(mask, rows, width, row, column, MASKED: tl.constexpr):
    """The same, and which entries are of rows that the mask marks."""
    offset, in_tile = _tile(rows, width, row, column)
    marked = row < rows
    if MASKED:
        marked = tl.load(mask + row, mask=marked, other=0).to(tl.int1)
    return offset, in_tile, marked[:, None] & in_tile


@triton.jit
def _pair(first, second, column, valid):
    """Two numbers of each column: mean and 1/deviation, or weight and bias."""
    return tl.load(first + column, mask=valid, other=0), tl.load(second + column, mask=valid, other=0)


@triton.jit(do_not_specialize=["rows", "rows_each"])
def norm_moments(x, mask, parts, rows, width, rows_each, MASKED: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Of each block of rows: how many are marked, their mean, and their squares about it; tile by tile (Chan)."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    count = tl.zeros((C,), tl.float32)
    mean = tl.zeros((C,), tl.float32)
    squares = tl.zeros((C,), tl.float32)
    for start in range(0, rows_each, R):
        row = block * rows_each + start + tl.arange(0, R)
        offset, _, marked = _marked_tile(mask, rows, width, row, column, MASKED)
        value = tl.load(x + offset, mask=marked, other=0).to(tl.float32)
        tile_count = tl.sum(marked.to(tl.float32), 0)
        tile_mean = tl.sum(value, 0) / tl.maximum(tile_count, 1)
        centred = tl.where(marked, value - tile_mean[None, :], 0)
        new_count = tl.maximum(count + tile_count, 1)
        step = tile_mean - mean
        squares += tl.sum(centred * centred, 0) + step * step * count * tile_count / new_count
        mean += step * tile_count / new_count
        count += tile_count
    plane = tl.num_programs(0) * width
    offset, valid = block * width + column, column < width
    tl.store(parts + offset, count, mask=valid)
    tl.store(parts + plane + offset, mean, mask=valid)
    tl.store(parts + 2 * plane + offset, squares, mask=valid)


@triton.jit
def _combine(parts, blocks, width, column, P: tl.constexpr):
    """Count, mean and variance of all rows, from the moments of their blocks."""
    plane = blocks * width
    part, in_parts = _tile(blocks, width, tl.arange(0, P), column)
    counts = tl.load(parts + part, mask=in_parts, other=0)
    means = tl.load(parts + plane + part, mask=in_parts, other=0)
    squares = tl.load(parts + 2 * plane + part, mask=in_parts, other=0)
    count = tl.sum(counts, 0)
    mean = tl.sum(counts * means, 0) / tl.maximum(count, 1)
    centred = means - mean[None, :]
    return count, mean, tl.sum(squares + counts * centred * centred, 0) / tl.maximum(count, 1)


@triton.jit(do_not_specialize=["rows", "rows_each", "blocks", "salt"])
def norm_forward(
    x, mask, weight, bias, running_mean, running_variance, num_batches, seed, parts, stats, out,
    rows, width, rows_each, blocks, momentum, eps, p, salt,
    TRAINING: tl.constexpr, MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr,
    R: tl.constexpr, C: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Combine the blocks' moments, update the running statistics, and write the rows."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < width
    if TRAINING:
        count, mean, variance = _combine(parts, blocks, width, column, P)
        if block == 0:
            unbiased = variance * count / tl.maximum(count - 1, 1)
            old_mean = tl.load(running_mean + column, mask=valid, other=0)
            old_variance = tl.load(running_variance + column, mask=valid, other=0)
            tl.store(running_mean + column, old_mean + momentum * (mean - old_mean), mask=valid)
            tl.store(running_variance + column, old_variance + momentum * (unbiased - old_variance), mask=valid)
            tl.store(stats + 2 * width + column, tl.maximum(count, 1), mask=valid)
            if tl.program_id(1) == 0:
                tl.store(num_batches, tl.load(num_batches) + 1)
    else:
        mean = tl.load(running_mean + column, mask=valid, other=0)
        variance = tl.load(running_variance + column, mask=valid, other=1)
    scale = tl.rsqrt(variance + eps)
    if block == 0:
        tl.store(stats + column, mean, mask=valid)
        tl.store(stats + width + column, scale, mask=valid)
    gain, shift = _pair(weight, bias, column, valid)
    for start in range(0, rows_each, R):
        row = block * rows_each + start + tl.arange(0, R)
        offset, in_tile, marked = _marked_tile(mask, rows, width, row, column, MASKED)
        value = tl.load(x + offset, mask=marked, other=0).to(tl.float32)
        value = (value - mean[None, :]) * scale[None, :] * gain[None, :] + shift[None, :]
        if RELU:
            value = tl.where(value < 0, 0, value)  # not a maximum, which would make 0 of NaN
        if DROP:
            value = tl.where(tl.rand(tl.load(seed) + salt, offset) >= p, value / (1 - p), 0)
        tl.store(out + offset, tl.where(marked, value, 0), mask=in_tile)


@triton.jit
def _scaled(x, mask, row, rows, column, width, mean, scale, MASKED: tl.constexpr):
    """Of a tile: offsets, which entries exist, which are marked, and their normalised values."""
    offset, in_tile, marked = _marked_tile(mask, rows, width, row, column, MASKED)
    scaled = (tl.load(x + offset, mask=marked, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    return offset, in_tile, marked, scaled


@triton.jit
def _activation_backward(
    grad, offset, marked, scaled, gain, shift, seed, p, salt, RELU: tl.constexpr, DROP: tl.constexpr
):  # fmt: skip
    """The gradient of a tile before dropout and ReLU."""
    grad_out = tl.load(grad + offset, mask=marked, other=0).to(tl.float32)
    if DROP:
        grad_out = tl.where(tl.rand(tl.load(seed) + salt, offset) >= p, grad_out / (1 - p), 0)
    if RELU:
        grad_out = tl.where(scaled * gain[None, :] + shift[None, :] > 0, grad_out, 0)
    return grad_out


@triton.jit(do_not_specialize=["rows", "rows_each", "salt"])
def norm_grad_sums(
    x, mask, grad, weight, bias, seed, stats, parts, rows, width, rows_each, p, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Of each block of rows: the sums of gradients, and of gradients times normalised values."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < width
    mean, scale = _pair(stats, stats + width, column, valid)
    gain, shift = _pair(weight, bias, column, valid)
    grad_sum = tl.zeros((C,), tl.float32)
    product_sum = tl.zeros((C,), tl.float32)
    for start in range(0, rows_each, R):
        row = block * rows_each + start + tl.arange(0, R)
        offset, _, marked, scaled = _scaled(x, mask, row, rows, column, width, mean, scale, MASKED)
        grad_out = _activation_backward(grad, offset, marked, scaled, gain, shift, seed, p, salt, RELU, DROP)
        grad_sum += tl.sum(grad_out, 0)
        product_sum += tl.sum(grad_out * scaled, 0)
    offset = block * width + column
    tl.store(parts + offset, grad_sum, mask=valid)
    tl.store(parts + tl.num_programs(0) * width + offset, product_sum, mask=valid)


@triton.jit(do_not_specialize=["rows", "rows_each", "blocks", "salt"])
def norm_backward(
    x, mask, grad, weight, bias, seed, stats, parts, grad_x, grad_weight, grad_bias,
    rows, width, rows_each, blocks, p, salt,
    MASKED: tl.constexpr, RELU: tl.constexpr, DROP: tl.constexpr, R: tl.constexpr, C: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Combine the blocks' sums and write the gradients of the rows, the weight and the bias."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < width
    part, in_parts = _tile(blocks, width, tl.arange(0, P), column)
    grad_sum = tl.sum(tl.load(parts + part, mask=in_parts, other=0), 0)
    product_sum = tl.sum(tl.load(parts + blocks * width + part, mask=in_parts, other=0), 0)
    if block == 0:
        tl.store(grad_bias + column, grad_sum, mask=valid)
        tl.store(grad_weight + column, product_sum, mask=valid)
    mean, scale = _pair(stats, stats + width, column, valid)
    count = tl.load(stats + 2 * width + column, mask=valid, other=1)
    gain, shift = _pair(weight, bias, column, valid)
    for start in range(0, rows_each, R):
        row = block * rows_each + start + tl.arange(0, R)
        offset, in_tile, marked, scaled = _scaled(x, mask, row, rows, column, width, mean, scale, MASKED)
        grad_out = _activation_backward(grad, offset, marked, scaled, gain, shift, seed, p, salt, RELU, DROP)
        grad_out -= (grad_sum[None, :] + scaled * product_sum[None, :]) / count[None, :]
        tl.store(grad_x + offset, tl.where(marked, grad_out * scale[None, :] * gain[None, :], 0), mask=in_tile)


@triton.jit(do_not_specialize=["rows", "rows_each"])
def fixed_norm_backward(
    x, mask, grad, weight, bias, stats, grad_x, rows, width, rows_each,
    MASKED: tl.constexpr, RELU: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradients of the rows where mean and variance are constants."""
    block, column = tl.program_id(0), tl.program_id(1) * C + tl.arange(0, C)
    valid = column < width
    mean, scale = _pair(stats, stats + width, column, valid)
    gain, shift = _pair(weight, bias, column, valid)
    for start in range(0, rows_each, R):
        row = block * rows_each + start + tl.arange(0, R)
        offset, in_tile, marked, scaled = _scaled(x, mask, row, rows, column, width, mean, scale, MASKED)
        grad_out = _activation_backward(grad, offset, marked, scaled, gain, shift, None, 0.0, 0, RELU, False)
        tl.store(grad_x + offset, tl.where(marked, grad_out * scale[None, :] * gain[None, :], 0), mask=in_tile)
