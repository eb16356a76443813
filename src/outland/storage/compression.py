"""Named tensors as bzip2 streams, for a journey: lists of edges take a fortieth of their bytes."""

import bz2
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from outland.storage.tensors import DTYPES

MAX_BYTES = 4 * 2**30  # of all tensors together: what a layout announces is its writer's word


def compress(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Each tensor's compressed bytes `[n]`, and its dtype and shape as plain values."""
    streams, layout = {}, {}
    for name, tensor in tensors.items():
        content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        streams[name] = torch.frombuffer(bytearray(bz2.compress(content)), dtype=torch.uint8)
        layout[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape)}
    return streams, layout


def decompress(streams: Mapping[str, Tensor], layout: Mapping[str, Any]) -> dict[str, Tensor]:
    """The inverse of `compress`; a `ValueError` where a stream does not hold what its layout says."""
    dtypes = {name: dtype for dtype, name in DTYPES.items()}
    tensors, left = {}, MAX_BYTES
    for name, stream in streams.items():
        dtype, shape = dtypes[layout[name]["dtype"]], layout[name]["shape"]
        size = dtype.itemsize * math.prod(shape)
        left -= size
        if left < 0 or not all(0 <= length <= MAX_BYTES for length in shape):
            raise ValueError(f"{name} cannot have the shape {shape}: all tensors may take {MAX_BYTES:,} bytes")
        reader = bz2.BZ2Decompressor()
        try:
            content = reader.decompress(stream.numpy().tobytes(), size + 1)  # never more than is announced
        except (OSError, MemoryError, OverflowError) as problem:
            raise ValueError(f"{name} cannot be decompressed: {str(problem) or 'it does not fit in memory'}") from None
        if len(content) != size or not reader.eof:
            raise ValueError(f"{name} is not of the size it should have")
        empty = torch.empty(0, dtype=dtype)
        tensors[name] = (torch.frombuffer(bytearray(content), dtype=dtype) if size else empty).reshape(shape)
    return tensors
