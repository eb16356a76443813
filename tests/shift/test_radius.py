from itertools import pairwise

import pytest
import torch

from outland.shift.radius import ball, exact_ball, radius_study


@pytest.mark.parametrize("distribution", ["normal", "ball"])
def test_further_is_no_less(distribution):
    rows = radius_study(distribution, radii=(0, 1, 2, 3, 6), points=300, trials=2, samples=3000)
    values = [row["covariate"] for row in rows]
    assert values[0] < 0.02
    assert all(later >= earlier for earlier, later in pairwise(values))
    assert values[-1] > 0.9


def test_the_ball_s_overlap_by_counting():
    points = ball(200_000, 3, torch.Generator().manual_seed(0))
    assert points.norm(dim=1).max() <= 1
    outside = (points - torch.tensor([0.8, 0.0, 0.0])).norm(dim=1) > 1
    assert outside.double().mean().item() == pytest.approx(exact_ball(0.8), abs=0.005)
