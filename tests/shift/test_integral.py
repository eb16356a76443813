import math
from statistics import pvariance

import pytest
import torch

from outland.errors import OutlandError
from outland.shift import Vectors, compare, covariate_shift
from outland.shift.density import Density


def gaussians(count=600, width=8, seed=0):
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(count, width, generator=random, dtype=torch.double) for _ in range(2))


def moved(points, radius):
    return points + radius * torch.eye(points.shape[1], dtype=points.dtype)[0]


@pytest.mark.parametrize("proposal", ["mixture", "union"])
def test_null_and_a_shift_of_thirty(proposal):
    here, there = gaussians()
    null = compare(Vectors(here), Vectors(there), proposal=proposal).covariate(1e-12)
    far = compare(Vectors(here), Vectors(moved(there, 30)), proposal=proposal).covariate(1e-12)
    assert null < 0.01
    assert 0.9 < far < 1.1


def test_the_card_s_values():
    """One coordinate of eight moved by 3, 5 and 10, with 600 points a side."""
    here, there = gaussians()
    for radius, value, within in ((3, 0.06, 0.05), (5, 0.46, 0.1), (10, 1.0, 0.05)):
        assert covariate_shift(here, moved(there, radius)) == pytest.approx(value, abs=within)


def test_symmetric_but_for_the_draws():
    here, there = gaussians()
    there = moved(there, 5)
    assert covariate_shift(here, there) == pytest.approx(covariate_shift(there, here), abs=0.03)


def test_scales_and_offsets_of_features_do_not_matter():
    here, there = gaussians(300, 4)
    there = moved(there, 4)
    scale, offset = torch.tensor([1e-3, 1.0, 50.0, 1e4]).double(), torch.tensor([5.0, 0.0, -3.0, 1e3]).double()
    plain = covariate_shift(here, there, 1e-6)
    assert plain > 0.05
    assert covariate_shift(here * scale + offset, there * scale + offset, 1e-6) == pytest.approx(plain, abs=1e-6)


def test_no_threshold_is_total_variation_by_a_closed_form():
    """Both estimates are Gaussian mixtures on the line, so their masses between crossings are sums of erf."""
    random = torch.Generator().manual_seed(0)
    here = torch.randn(400, 1, generator=random, dtype=torch.double)
    there = torch.randn(400, 1, generator=random, dtype=torch.double) + 1.5
    union = torch.cat([here, there])
    scaled = (union - union.mean()) / union.std(correction=0)
    one, other = scaled[:400], scaled[400:]

    def below(points, at):
        width = Density(points).root.item()
        return (0.5 * (1 + torch.erf((at - points.T) / (width * math.sqrt(2))))).mean(1)

    grid = torch.linspace(-6, 6, 200_001, dtype=torch.double)[:, None]
    log_gap = Density(one).log(grid) - Density(other).log(grid)
    signs = log_gap.sign()
    cuts = torch.cat([grid[:1], grid[:-1][signs[1:] != signs[:-1]], grid[-1:]])
    mass = (below(one, cuts) - below(other, cuts)).diff().abs().sum() / 2
    values = [compare(Vectors(here), Vectors(there), 40_000, seed).covariate(math.inf) for seed in range(4)]
    assert sum(values) / 4 == pytest.approx(mass.item(), abs=0.006)
    truth = math.erf(1.5 / 2 / math.sqrt(2))  # of the two normal distributions themselves
    assert mass.item() == pytest.approx(truth, abs=0.05)


def test_no_region_below_zero():
    here, there = gaussians(100, 2)
    assert compare(Vectors(here), Vectors(moved(there, 30))).covariate(0.0) == 0


def test_more_points_less_variance():
    here, there = gaussians(100, 2)
    there = moved(there, 3)

    def variance(samples):
        return pvariance([compare(Vectors(here), Vectors(there), samples, s).covariate(1e-3) for s in range(60)])

    assert variance(500) / variance(2000) == pytest.approx(4, rel=0.6)


def test_the_mixture_is_steadier_than_the_union_and_agrees_with_it():
    here, there = gaussians(200, 4)
    there = moved(there, 20)
    values = {
        proposal: torch.tensor(
            [compare(Vectors(here), Vectors(there), 2000, s, proposal).covariate(1e-12) for s in range(20)]
        )
        for proposal in ("mixture", "union")
    }
    assert values["mixture"].mean().item() == pytest.approx(values["union"].mean().item(), abs=0.05)
    assert values["mixture"].std() < 0.2 * values["union"].std()
    assert values["mixture"].max() <= 1 + 1e-12


def test_identical_points_have_no_shift():
    here, _ = gaussians(200, 4)
    assert covariate_shift(here, here, math.inf) == pytest.approx(0, abs=1e-12)


def test_a_constant_feature_changes_nothing_and_sets_in_one_place_are_not_apart():
    here, there = gaussians(200, 3)
    there = moved(there, 4)
    dull = torch.full((200, 1), 7.0, dtype=torch.double)
    plain = covariate_shift(here, there, 1e-6)
    assert covariate_shift(torch.cat([here, dull], 1), torch.cat([there, dull], 1), 1e-6) == pytest.approx(plain)
    assert covariate_shift(dull, dull, math.inf) == pytest.approx(0, abs=1e-12)


def test_two_places_are_wholly_apart():
    here, there = torch.zeros(50, 3), torch.ones(50, 3)
    assert covariate_shift(here, there) == pytest.approx(1, abs=1e-6)


def test_correlation_shift_is_seen_where_labels_turn_round():
    here, there = gaussians(600, 2)
    first, second = (here[:, 0] > 0).long(), (there[:, 0] > 0).long()
    same = compare(Vectors(here, None, first), Vectors(there, None, second)).correlation(1e-12)
    turned = compare(Vectors(here, None, first), Vectors(there, None, 1 - second)).correlation(1e-12)
    assert same < 0.1
    assert 0.75 < turned <= 1
    assert compare(Vectors(here), Vectors(there)).correlation(1e-12) is None


def test_correlation_of_labels_that_mean_nothing_is_their_shares_difference():
    """Labels independent of z, 80 % ones here and 20 % there: Σ_y |p(y) − q(y)| = 1.2, of which one half."""
    here, there = gaussians(1000, 2)
    first, second = torch.arange(1000) % 5 != 0, torch.arange(1000) % 5 == 0
    value = compare(Vectors(here, None, first.long()), Vectors(there, None, second.long())).correlation(0.0)
    assert value == pytest.approx(0.6, abs=0.06)


def test_a_class_that_one_side_lacks():
    here, there = gaussians(200, 2)
    ones = torch.ones(200).long()
    value = compare(Vectors(here, None, ones), Vectors(there, None, ones * 0)).correlation(0.0)
    assert 0.9 < value <= 1


def test_weights_stand_for_copies():
    here, there = gaussians(150, 2)
    there = moved(there, 3)
    count = torch.arange(150) % 3 + 1
    repeated = compare(Vectors(here.repeat_interleave(count, 0)), Vectors(there), 20_000).covariate(1e-3)
    weighted = compare(Vectors(here, count.double()), Vectors(there, torch.ones(150).double()), 20_000).covariate(1e-3)
    assert weighted == pytest.approx(repeated, abs=0.05)


def test_other_features_are_refused():
    with pytest.raises(OutlandError, match="the first set has 3 features and the second 2"):
        covariate_shift(torch.zeros(30, 3), torch.zeros(30, 2))
