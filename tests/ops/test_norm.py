import pytest
import torch

from outland.nn import BatchNorm
from outland.ops import DropoutDraws, DropoutSeeds, batch_norm
from tests.ops.cases import DEVICE, close, needs_triton

pytestmark = needs_triton


class Seeds(DropoutSeeds):
    """A given seed, and a given number to add."""

    def __init__(self, seed, salt=0):
        self.seed, self.salt = seed, salt

    def take(self):
        return torch.tensor([self.seed], device=DEVICE), self.salt


def layers(width):
    generator = torch.Generator().manual_seed(3)
    pair = []
    for _ in range(2):
        layer = BatchNorm(width).to(DEVICE)
        pair.append(layer)
    with torch.no_grad():
        for name in ("weight", "bias", "running_mean", "running_var"):
            value = torch.rand(width, generator=generator).to(DEVICE) + 0.2
            for layer in pair:
                getattr(layer, name).copy_(value)
    return pair


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(1, 5), (7, 3), (64, 32), (150, 70), (300, 8)])
def test_the_kernel_equals_the_plain_form_while_training(rows, width, masked, relu, monkeypatch):
    if rows == 300:
        monkeypatch.setattr("outland.ops.triton.norm.MOST_BLOCKS", 2)  # so that a block has several tiles
    generator = torch.Generator().manual_seed(rows)
    ours, plain = layers(width)
    x = (3 + torch.randn(rows, width, generator=generator)).to(DEVICE)
    mask = (torch.rand(rows, generator=generator) < 0.7).to(DEVICE) if masked else None
    grad = torch.randn(rows, width, generator=generator).to(DEVICE)
    if mask is not None:
        mask[0] = True
        grad = grad * mask[:, None]  # nothing comes back from padding
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = batch_norm.kernel(one, mask, ours.state(), relu)
    expected = batch_norm.plain(other, mask, plain.state(), relu)
    real = slice(None) if mask is None else mask
    close(out[real], expected[real])
    if mask is not None:
        assert not out[~mask].any()
    out.backward(grad)
    expected.backward(grad)
    close(one.grad, other.grad, 1e-4)
    close(ours.weight.grad, plain.weight.grad, 1e-3)
    close(ours.bias.grad, plain.bias.grad, 1e-3)
    for name in ("running_mean", "running_var"):
        close(getattr(ours, name), getattr(plain, name))
    assert ours.num_batches_tracked.item() == plain.num_batches_tracked.item() == 1


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_kernel_equals_the_plain_form_with_running_statistics(masked, relu):
    ours, plain = (layer.eval().requires_grad_(False) for layer in layers(40))
    generator = torch.Generator().manual_seed(1)
    x, grad = (torch.randn(90, 40, generator=generator).to(DEVICE) for _ in range(2))
    mask = (torch.arange(90) < 77).to(DEVICE) if masked else None
    if mask is not None:
        grad = grad * mask[:, None]
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = batch_norm.kernel(one, mask, ours.state(), relu)
    expected = batch_norm.plain(other, mask, plain.state(), relu)
    close(out[:77], expected[:77])
    out.backward(grad)
    expected.backward(grad)
    close(one.grad, other.grad)
    assert ours.num_batches_tracked.item() == 0


def test_dropped_entries_are_the_same_forward_and_back():
    ours, plain = layers(48)
    generator = torch.Generator().manual_seed(1)
    x, grad = (torch.randn(300, 48, generator=generator).to(DEVICE) for _ in range(2))
    draws = DropoutDraws(0.25, seeds=Seeds(12345))
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = batch_norm.kernel(one, None, ours.state(), False, draws)
    keep = out != 0  # without a ReLU nothing else is exactly 0
    assert keep.float().mean().item() == pytest.approx(0.75, abs=3 * (0.25 * 0.75 / keep.numel()) ** 0.5)
    expected = plain(other) * keep / 0.75
    close(out, expected)
    out.backward(grad)
    expected.backward(grad)
    close(one.grad, other.grad, 1e-4)
    close(ours.weight.grad, plain.weight.grad, 1e-3)
    again = batch_norm.kernel(x, None, ours.state(), False, draws)
    assert torch.equal(again != 0, keep)
    for seeds in (Seeds(12347), Seeds(12345, salt=1)):
        elsewhere = batch_norm.kernel(x, None, ours.state(), False, DropoutDraws(0.25, seeds=seeds))
        assert (elsewhere != 0).eq(keep).float().mean().item() == pytest.approx(0.625, abs=0.02)
