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
    queries, centres = points(50, seed=1), points()
    weight = torch.rand(300, generator=torch.Generator().manual_seed(2), dtype=torch.double) if weighted else None
    reference = stats.gaussian_kde(centres.T.numpy(), weights=None if weight is None else weight.numpy())
    log_density = Density(centres, weight, jitter=0.0).log(queries)
    assert np.allclose(log_density.numpy(), reference.logpdf(queries.T.numpy()), atol=1e-9)


def test_blocks_change_nothing(monkeypatch):
    queries, centres = points(70, seed=1), points()
    whole = Density(centres).log(queries)
    monkeypatch.setattr(density, "BLOCK_PAIRS", 1000)  # three rows at a time
    assert torch.allclose(Density(centres).log(queries), whole, atol=1e-12)


def test_collinear_and_identical_points_have_a_density():
    line = torch.linspace(0, 1, 30, dtype=torch.double)[:, None].repeat(1, 3)
    assert Density(line).log(line).isfinite().all()
    identical = torch.ones(20, 2, dtype=torch.double)
    kernel = -torch.log(torch.tensor(2 * torch.pi * 1e-6))  # a normal distribution of variance 1e-6 in the plane
    assert Density(identical).log(identical[:1]).item() == pytest.approx(kernel.item(), abs=1e-6)


def test_draws_follow_the_estimate():
    centres = points(400, 2)
    estimate = Density(centres)
    drawn = estimate.sample(40_000, torch.Generator().manual_seed(0))
    kernel = estimate.root @ estimate.root.T
    spread = centres.T.cov(correction=0) + kernel
    assert torch.allclose(drawn.mean(0), centres.mean(0), atol=0.05)
    assert torch.allclose(drawn.T.cov(), spread, rtol=0.05, atol=0.05)
