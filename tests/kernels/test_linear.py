"""The GPU's small linear layers beside their plain twins; off a GPU they run in Triton's interpreter."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from outland import kernels
from outland.nn import Dropout
from outland.nn.dropout import Seeds
from outland.nn.norm import BatchNorm, LinearBeforeNorm, normed
from outland.training.data_parallel import SyncedBatchNorm
from tests.kernels.cases import DEVICE, close, triton_is_here

pytestmark = triton_is_here
WITHIN = 4e-3 if DEVICE.type == "cuda" else 5e-5  # TF32 has ten bits


@pytest.fixture
def small(monkeypatch):
    """As on a GPU where TF32 is allowed; tells how often a product was launched."""
    from outland.kernels import linear

    launched, launch = [], linear._launch
    monkeypatch.setattr(kernels, "fits", lambda tensor: tensor.dtype == torch.float32)
    monkeypatch.setattr(kernels, "rounds_products", lambda device: True)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    monkeypatch.setattr(linear, "_launch", lambda *given: launched.append(given[5] is not None) or launch(*given))
    return launched


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
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 16, 20), (65, 40, 100), (130, 100, 36), (64, 64, 400)])
def test_a_linear_layer_and_its_norm_equal_their_twin(rows, inputs, outputs, frozen, masked, small, monkeypatch):
    sides = []
    for ours in (False, True):
        linear, norm, x, slope, mask = parts(rows, inputs, outputs, masked)
        linear.weight.requires_grad_(not frozen)
        monkeypatch.setattr("outland.nn.norm._small", lambda x, ours=ours: ours)
        if ours:
            monkeypatch.setattr("outland.kernels.norm._moments", None)  # they are at hand
        given = x.requires_grad_()
        out = normed(linear, norm, given, mask)  # a ReLU would make steps of what TF32 rounds
        asked = [given, norm.weight, norm.bias, *([] if frozen else [linear.weight])]
        real = slice(None) if mask is None else mask
        sides.append((out[real], *torch.autograd.grad(out, asked, slope), norm.running_mean, norm.running_var))
    assert small == [True]
    for found, expected in zip(*sides, strict=True):
        close(found, expected, WITHIN)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@torch.no_grad()
def test_where_statistics_stand_still_all_is_one(masked, relu, small, monkeypatch):
    linear, norm, x, _, mask = parts(150, 40, 70, masked)
    linear.eval(), norm.eval()
    norm.running_var[3] = 0  # nothing but ε is left there
    norm.running_mean[3] = linear(x).mean(0)[3]
    monkeypatch.setattr(BatchNorm, "forward", None)  # nobody asks it
    found = normed(linear, norm, x, mask, relu)
    assert small == [False]
    expected = nn.functional.batch_norm(linear(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
    expected = expected.relu() if relu else expected
    close(found, expected if mask is None else expected * mask[:, None], WITHIN)


def test_dropout_acts_whatever_way_is_taken(small):
    linear, norm, x, _, _ = parts(200, 40, 70, False)
    dropout = Dropout(0.25)
    dropout.seeds = Seeds(torch.Generator().manual_seed(1))
    dropout.seeds._drawn = torch.tensor([77], device=DEVICE)
    for training, launched in ((True, [True]), (False, [True])):  # a still norm leaves it to others
        linear.train(training), norm.train(training)
        with torch.no_grad():
            share = (normed(linear, norm, x, None, False, dropout) == 0).float().mean().item()
        assert share == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / (200 * 70)) ** 0.5)
        assert small == launched


@pytest.mark.parametrize("moving", ["x", "linear.weight", "linear.bias", "norm.weight", "norm.bias"])
def test_whoever_moves_has_a_slope_past_a_still_norm(moving, small):
    linear, norm, x, slope, _ = parts(20, 16, 8, False)
    linear.eval().requires_grad_(False), norm.eval().requires_grad_(False)
    named = {"x": x, "linear.weight": linear.weight, "linear.bias": linear.bias}
    asked = (named | {"norm.weight": norm.weight, "norm.bias": norm.bias})[moving].requires_grad_()
    (found,) = torch.autograd.grad(normed(linear, norm, x), asked, slope)
    plain = nn.functional.batch_norm(linear(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
    close(found, torch.autograd.grad(plain, asked, slope)[0], WITHIN)


@pytest.mark.parametrize(("kind", "training"), [(BatchNorm, True), (BatchNorm, False), (SyncedBatchNorm, True)])
def test_a_norm_without_a_momentum_or_of_several_processes_is_asked_itself(kind, training, small):
    linear, _, x, _, _ = parts(20, 16, 8, False)
    norm = kind(8, momentum=None if kind is BatchNorm else 0.1).to(DEVICE).train(training)
    linear.train(training)
    twin = deepcopy(norm)
    with torch.no_grad():
        close(normed(linear, norm, x), twin(linear(x)), WITHIN)
    assert small == []
    for ours, theirs in zip(norm.buffers(), twin.buffers(), strict=True):
        close(ours.double(), theirs.double(), WITHIN)


@pytest.mark.parametrize("training", [True, False])
def test_what_is_no_number_stays_none(training, small):
    linear, norm, x, _, _ = parts(70, 16, 8, False)
    linear.train(training), norm.train(training)
    with torch.no_grad():
        linear.weight[2, 5] = torch.nan
        out = normed(linear, norm, x, relu=True)
    assert small == [training]
    assert out[:, 2].isnan().all()
    assert out[:, [0, 1, 3, 4, 5, 6, 7]].isfinite().all()


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
    monkeypatch.setattr(kernels, "rounds_products", lambda device: True)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    x = torch.zeros(rows, width, dtype=dtype)
    assert _small(x) is taken
    with torch.autocast("cpu", torch.bfloat16):
        assert _small(x) is False
    monkeypatch.setattr(kernels, "rounds_products", lambda device: False)
    assert _small(x) is False
