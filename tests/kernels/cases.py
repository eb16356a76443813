"""What the kernels' tests share."""

import importlib.util

import pytest
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

triton_is_here = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: the kernels cannot be tried"
)


def close(found: torch.Tensor, expected: torch.Tensor, within: float = 2e-5) -> None:
    """Equal to rounding, in units of the largest entry."""
    assert found.shape == expected.shape
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    assert (found - expected).abs().max().item() <= within * scale if expected.numel() else True
