import math

import pytest
import torch

from outland.nn import Dropout


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_the_right_share_is_dropped_and_the_rest_scaled(p):
    drop = Dropout(p)
    drop.random = torch.Generator().manual_seed(0)
    x = torch.full((1001, 303), 2.0, requires_grad=True)
    y = drop(x)
    kept = y != 0
    assert abs(kept.float().mean().item() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / x.numel())
    assert torch.allclose(y[kept], torch.tensor(2 / (1 - p)))
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(slope != 0, kept)
    assert torch.allclose(slope[kept], torch.tensor(1 / (1 - p)))
    # no row, column or diagonal is favoured: the eight entries of a word are as independent as any
    for place in range(8):
        share = kept.flatten()[place::8].float().mean().item()
        assert abs(share - (1 - p)) < 4 * math.sqrt(8 * p * (1 - p) / x.numel())
    together = torch.corrcoef(kept.flatten()[: 8 * (x.numel() // 8)].view(-1, 8).float().T)
    assert (together - torch.eye(8)).abs().max() < 0.02


def test_the_stream_decides_and_nothing_happens_at_inference():
    drop, x = Dropout(0.5), torch.randn(7, 5)
    found = []
    for seed in (1, 1, 2):
        drop.random = torch.Generator().manual_seed(seed)
        torch.rand(3)
        found.append(drop(x))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    drop.eval()
    assert drop(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()
    assert Dropout(1 - 1e-9)(torch.ones(100, 100)).count_nonzero() < 10  # one in 65536 is the least that stays
    assert Dropout(0.5)(x[:0]).shape == (0, 5)


def test_no_two_layers_of_a_phase_get_the_same_seed(monkeypatch):
    from outland.nn import Seeds

    class OnAGpu(Seeds):
        def renew(self):
            self._drawn, self._taken = torch.randint(2**31, (1,), generator=self.random), 0

    seeds = OnAGpu(torch.Generator().manual_seed(0))
    first, second = seeds.take(), seeds.take()
    assert first[0] is second[0]
    assert first[1] != second[1]
    seeds.renew()
    assert seeds.take()[0].item() != first[0].item()


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("training", [True, False])
def test_a_relu_before_it_is_the_same_as_one_within(p, training):
    x = torch.randn(40, 30, generator=torch.Generator().manual_seed(5))
    x[:, :5] = 0  # where a ReLU has no slope
    slope, sides = torch.randn(40, 30, generator=torch.Generator().manual_seed(6)), []
    for within in (True, False):
        layer, given = Dropout(p).train(training), x.clone().requires_grad_()
        layer.random = torch.Generator().manual_seed(7)
        out = layer(given, relu=True) if within else layer(given.relu())
        sides.append((out, *torch.autograd.grad(out, given, slope)))
    for found, expected in zip(*sides, strict=True):
        assert torch.equal(found, expected)
