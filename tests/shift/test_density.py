import numpy as np
import pytest
import torch

from outland.shift import density
from outland.shift.density import Density

stats = pytest.importorskip("scipy.stats", reason="scipy is the reference here")


def points(count=300, width=4, seed=0):
    random = torch.Generator().manual_seed(seed)
    mixing = torch.randn(width, width, generator=random, dtype=torch.double)
    return torch.randn(count, width, generator=random, dtype=torch.double) @ mixing


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_scipys_estimate(weighted):
    at, own = points(50, seed=1), points()
    weight = torch.rand(300, generator=torch.Generator().manual_seed(2), dtype=torch.double) if weighted else None
    reference = stats.gaussian_kde(own.T.numpy(), weights=None if weight is None else weight.numpy())
    found = Density(own, weight, jitter=0.0).log(at)
    assert np.allclose(found.numpy(), reference.logpdf(at.T.numpy()), atol=1e-9)


def test_blocks_change_nothing(monkeypatch):
    at, own = points(70, seed=1), points()
    whole = Density(own).log(at)
    monkeypatch.setattr(density, "_AT_ONCE", 1000)  # three rows at a time
    assert torch.allclose(Density(own).log(at), whole, atol=1e-12)


def test_points_in_a_line_or_in_one_place_have_a_density():
    line = torch.linspace(0, 1, 30, dtype=torch.double)[:, None].repeat(1, 3)
    assert Density(line).log(line).isfinite().all()
    place = torch.ones(20, 2, dtype=torch.double)
    kernel = -torch.log(torch.tensor(2 * torch.pi * 1e-6))  # a normal law of variance 1e-6 in the plane
    assert Density(place).log(place[:1]).item() == pytest.approx(kernel.item(), abs=1e-6)


def test_draws_follow_the_estimate():
    own = points(400, 2)
    estimate = Density(own)
    drawn = estimate.sample(40_000, torch.Generator().manual_seed(0))
    kernel = estimate.root @ estimate.root.T
    spread = own.T.cov(correction=0) + kernel
    assert torch.allclose(drawn.mean(0), own.mean(0), atol=0.05)
    assert torch.allclose(drawn.T.cov(), spread, rtol=0.05, atol=0.05)
