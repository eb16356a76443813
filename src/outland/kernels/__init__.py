"""Programs for the GPU, written by hand in Triton where PyTorch would launch many small ones.

Each has a plain twin elsewhere in the library that says the same in PyTorch; tests hold the two side by side. Nothing
here is imported before a tensor on a GPU asks for it, so that Triton is not needed on a machine without one.
"""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


@cache
def installed() -> bool:
    """Whether Triton is here; it comes with PyTorch's builds for NVIDIA GPUs."""
    return find_spec("triton") is not None


def fits(tensor: Tensor) -> bool:
    """Whether the kernels take this tensor: on a GPU, in single precision or less, with entries that 32 bits count."""
    plain = tensor.dtype in (torch.float32, torch.bfloat16, torch.float16) and tensor.numel() < 2**31
    return tensor.is_cuda and plain and installed()


@cache
def rounds_products(device: torch.device) -> bool:
    """Whether this GPU has matrix products in TF32: NVIDIA's since Ampere."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
