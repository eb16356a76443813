"""The GPU's fused batch norm beside its plain twin; off a GPU the kernels run in Triton's interpreter."""

import dataclasses

import pytest
import torch

from outland import kernels
from outland.nn.dropout import Dropout
from outland.nn.norm import BatchNorm
from tests.kernels.cases import DEVICE, close, triton_is_here

pytestmark = triton_is_here


def plan_of(layer, relu, drop, seed):
    from outland.kernels.norm import Normed

    return Normed(
        layer.weight,
        layer.bias,
        layer.running_mean,
        layer.running_var,
        layer.num_batches_tracked,
        layer.momentum,
        layer.eps,
        layer.training,
        relu,
        drop,
        seed,
    )


def layers(width):
    random = torch.Generator().manual_seed(3)
    pair = []
    for _ in range(2):
        layer = BatchNorm(width).to(DEVICE)
        pair.append(layer)
    with torch.no_grad():
        for name in ("weight", "bias", "running_mean", "running_var"):
            value = torch.rand(width, generator=random).to(DEVICE) + 0.2
            for layer in pair:
                getattr(layer, name).copy_(value)
    return pair


@pytest.mark.parametrize(("entries", "taken"), [(2**31 - 1, True), (2**31, False)])
def test_tensors_whose_places_32_bits_do_not_reach_are_left_to_the_twin(entries, taken):
    class OnGPU:
        is_cuda, dtype = True, torch.float32

        def numel(self):
            return entries

    assert kernels.fits(OnGPU()) is taken


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(1, 5), (7, 3), (64, 32), (150, 70), (300, 8)])
def test_training_norm_equals_its_twin(rows, width, masked, relu, monkeypatch):
    from outland.kernels import norm
    from outland.kernels.norm import norm_relu_drop

    if rows == 300:
        monkeypatch.setattr(norm, "MOST_BLOCKS", 2)  # so that a block has several tiles

    random = torch.Generator().manual_seed(rows)
    ours, plain = layers(width)
    x = (3 + torch.randn(rows, width, generator=random)).to(DEVICE)
    mask = (torch.rand(rows, generator=random) < 0.7).to(DEVICE) if masked else None
    slope = torch.randn(rows, width, generator=random).to(DEVICE)
    if mask is not None:
        mask[0] = True
        slope = slope * mask[:, None]  # nothing comes back from padding
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = norm_relu_drop(one, mask, plan_of(ours, relu, 0.0, None))
    expected = plain(other, mask, relu=relu)
    real = slice(None) if mask is None else mask
    close(out[real], expected[real])
    if mask is not None:
        assert not out[~mask].any()
    out.backward(slope)
    expected.backward(slope)
    close(one.grad, other.grad, 1e-4)
    close(ours.weight.grad, plain.weight.grad, 1e-3)
    close(ours.bias.grad, plain.bias.grad, 1e-3)
    for name in ("running_mean", "running_var"):
        close(getattr(ours, name), getattr(plain, name))
    assert ours.num_batches_tracked.item() == plain.num_batches_tracked.item() == 1


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_fixed_norm_equals_its_twin(masked, relu):
    from outland.kernels.norm import norm_relu_drop

    ours, plain = (layer.eval().requires_grad_(False) for layer in layers(40))
    random = torch.Generator().manual_seed(1)
    x, slope = (torch.randn(90, 40, generator=random).to(DEVICE) for _ in range(2))
    mask = (torch.arange(90) < 77).to(DEVICE) if masked else None
    if mask is not None:
        slope = slope * mask[:, None]
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = norm_relu_drop(one, mask, plan_of(ours, relu, 0.0, None))
    expected = plain(other, mask, relu=relu)
    close(out[:77], expected[:77])
    out.backward(slope)
    expected.backward(slope)
    close(one.grad, other.grad)
    assert ours.num_batches_tracked.item() == 0


def test_dropped_entries_are_the_same_forward_and_back():
    from outland.kernels.norm import norm_relu_drop

    ours, plain = layers(48)
    random = torch.Generator().manual_seed(1)
    x, slope = (torch.randn(300, 48, generator=random).to(DEVICE) for _ in range(2))
    seed = torch.tensor([12345], device=DEVICE)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = norm_relu_drop(one, None, plan_of(ours, False, 0.25, seed))
    kept = out != 0  # without a ReLU nothing else is exactly 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=3 * (0.25 * 0.75 / kept.numel()) ** 0.5)
    expected = plain(other) * kept / 0.75
    close(out, expected)
    out.backward(slope)
    expected.backward(slope)
    close(one.grad, other.grad, 1e-4)
    close(ours.weight.grad, plain.weight.grad, 1e-3)
    again = norm_relu_drop(x, None, plan_of(ours, False, 0.25, seed))
    assert torch.equal(again != 0, kept)
    salted = dataclasses.replace(plan_of(ours, False, 0.25, seed), salt=1)
    for other_draws in (plan_of(ours, False, 0.25, seed + 2), salted):
        elsewhere = norm_relu_drop(x, None, other_draws)
        assert (elsewhere != 0).eq(kept).float().mean().item() == pytest.approx(0.625, abs=0.02)


def test_norm_then_relu_then_dropout_on_a_cpu():
    layer, drop = BatchNorm(4), Dropout(0.5)
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    out = layer(x, None, relu=True, dropout=drop)
    expected = torch.nn.functional.batch_norm(x, None, None, training=True).relu() * 2
    assert torch.where(out == 0, expected, out).allclose(expected, atol=1e-6)
    assert (out == 0).sum() > (expected == 0).sum()
