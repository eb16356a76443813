"""The GPU's small linear layers beside their plain twins; off a GPU they run in Triton's interpreter."""

import pytest
import torch
from torch import nn

from outland import kernels
from outland.nn.norm import BatchNorm, LinearBeforeNorm, normed
from tests.kernels.cases import DEVICE, close, triton_is_here

pytestmark = triton_is_here
WITHIN = 4e-3 if DEVICE.type == "cuda" else 5e-5  # TF32 has ten bits


@pytest.fixture
def small(monkeypatch):
    """As on a GPU where TF32 is allowed."""
    monkeypatch.setattr(kernels, "fits", lambda tensor: tensor.dtype == torch.float32)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")


def parts(rows, inputs, outputs, masked):
    random = torch.Generator().manual_seed(rows)
    linear, norm = LinearBeforeNorm(inputs, outputs), BatchNorm(outputs)
    with torch.no_grad():
        for value in (*linear.parameters(), *norm.parameters(), norm.running_mean, norm.running_var):
            value.copy_(torch.rand(value.shape, generator=random) + 0.2)
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=random))
    x, slope = torch.randn(rows, inputs, generator=random), torch.randn(rows, outputs, generator=random)
    mask = (torch.rand(rows, generator=random) < 0.7) if masked else None
    if mask is not None:
        mask[0] = True
        slope = slope * mask[:, None]
    moved = (None if value is None else value.to(DEVICE) for value in (x, slope, mask))
    return linear.to(DEVICE), norm.to(DEVICE), *moved


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 16, 20), (70, 40, 100), (130, 100, 36), (64, 64, 400)])
def test_a_linear_layer_and_its_norm_equal_their_twin(rows, inputs, outputs, masked, small, monkeypatch):
    sides = []
    for ours in (True, False):
        linear, norm, x, slope, mask = parts(rows, inputs, outputs, masked)
        monkeypatch.setattr("outland.nn.norm._small", lambda x, ours=ours: ours)
        given = x.requires_grad_()
        out = normed(linear, norm, given, mask)  # a ReLU would make steps of what TF32 rounds
        slopes = torch.autograd.grad(out, (given, linear.weight, norm.weight, norm.bias), slope)
        real = slice(None) if mask is None else mask
        sides.append((out[real], *slopes, norm.running_mean, norm.running_var))
    for found, expected in zip(*sides, strict=True):
        close(found, expected, WITHIN)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@torch.no_grad()
def test_where_statistics_stand_still_all_is_one(masked, relu, small, monkeypatch):
    linear, norm, x, _, mask = parts(150, 40, 70, masked)
    linear.eval(), norm.eval()
    called = []
    monkeypatch.setattr(BatchNorm, "forward", lambda self, *given: called.append(given))
    found = normed(linear, norm, x, mask, relu)
    assert not called
    monkeypatch.undo()
    expected = nn.functional.batch_norm(linear(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
    expected = expected.relu() if relu else expected
    close(found, expected if mask is None else expected * mask[:, None], WITHIN)


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "precision", "taken"),
    [
        (2048, 16, torch.float32, "high", True),
        (2049, 16, torch.float32, "high", False),
        (100, 15, torch.float32, "high", False),
        (100, 16, torch.bfloat16, "high", False),
        (100, 16, torch.float32, "highest", False),
        (0, 16, torch.float32, "high", False),
    ],
)
def test_who_is_small(rows, width, dtype, precision, taken, monkeypatch):
    from outland.nn.norm import _small

    monkeypatch.setattr(kernels, "fits", lambda tensor: True)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    x = torch.zeros(rows, width, dtype=dtype)
    assert _small(x) is taken
    with torch.autocast("cpu", torch.bfloat16):
        assert _small(x) is False
