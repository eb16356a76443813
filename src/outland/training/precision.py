"""The precision of a run's arithmetic."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from outland.spec import Precision


@contextmanager
def autocast(precision: Precision, device: torch.device) -> Iterator[None]:
    """Context that computes in `precision`; everything is stored in single precision all the same.

    `tf32` rounds what enters a matrix product to 10 bits on GPUs that gain by it, and is `float32` elsewhere; `bf16`
    does whole layers in half the bits.
    """
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16", cache_enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
