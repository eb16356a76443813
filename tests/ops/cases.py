"""What the tests of operations share: each holds a kernel to the plain form, by Triton's interpreter off a GPU."""

import importlib.util

import pytest
import torch
from torch import Tensor

from outland.ops import EdgeCSR, Edges

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: the kernels cannot be tried"
)


def close(actual: Tensor, expected: Tensor, within: float = 2e-5) -> None:
    """Equal to rounding, in units of the largest entry."""
    assert actual.shape == expected.shape
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    assert (actual - expected).abs().max().item() <= within * scale if expected.numel() else True


def random_edges(nodes: int, edges: int, seed: int = 0) -> Edges:
    """Random edges, grouped by target and by source."""
    generator = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(max(nodes, 1), (edges,), generator=generator) for _ in range(2))
    grouped = (EdgeCSR.from_edges(*ends, nodes) for ends in ((target, source), (source, target)))
    return Edges(torch.stack([source, target]).to(DEVICE), *(EdgeCSR(*(t.to(DEVICE) for t in csr)) for csr in grouped))
