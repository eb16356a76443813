import math

import pytest
import torch

from outland.nn import Dropout


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_the_right_share_is_dropped_and_the_rest_scaled(p):
    drop = Dropout(p)
    drop.generator = torch.Generator().manual_seed(0)
    x = torch.full((1001, 303), 2.0, requires_grad=True)
    y = drop(x)
    keep = y != 0
    assert abs(keep.float().mean().item() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / x.numel())
    assert torch.allclose(y[keep], torch.tensor(2 / (1 - p)))
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad != 0, keep)
    assert torch.allclose(grad[keep], torch.tensor(1 / (1 - p)))
    # no row, column or diagonal is favoured: the eight entries of a word are as independent as any
    for first in range(8):
        share = keep.flatten()[first::8].float().mean().item()
        assert abs(share - (1 - p)) < 4 * math.sqrt(8 * p * (1 - p) / x.numel())
    together = torch.corrcoef(keep.flatten()[: 8 * (x.numel() // 8)].view(-1, 8).float().T)
    assert (together - torch.eye(8)).abs().max() < 0.02


def test_the_generator_decides_and_nothing_happens_at_inference():
    drop, x = Dropout(0.5), torch.randn(7, 5)
    outs = []
    for seed in (1, 1, 2):
        drop.generator = torch.Generator().manual_seed(seed)
        torch.rand(3)
        outs.append(drop(x))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    drop.eval()
    assert drop(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()
    assert Dropout(1 - 1e-9)(torch.ones(100, 100)).count_nonzero() < 10  # one in 65536 is the least that stays
    assert Dropout(0.5)(x[:0]).shape == (0, 5)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("training", [True, False])
def test_a_relu_before_it_is_the_same_as_one_within(p, training):
    x = torch.randn(40, 30, generator=torch.Generator().manual_seed(5))
    x[:, :5] = 0  # where a ReLU has no gradient
    grad, sides = torch.randn(40, 30, generator=torch.Generator().manual_seed(6)), []
    for within in (True, False):
        layer, given = Dropout(p).train(training), x.clone().requires_grad_()
        layer.generator = torch.Generator().manual_seed(7)
        out = layer(given, relu=True) if within else layer(given.relu())
        sides.append((out, *torch.autograd.grad(out, given, grad)))
    for actual, expected in zip(*sides, strict=True):
        assert torch.equal(actual, expected)
