import pytest
import torch
from torch.nn import functional

from outland.methods.parts.clusters import Clusters
from tests.methods.cases import numbers, seeded


def directions(*angles):
    angle = torch.tensor(angles, dtype=torch.double).deg2rad()
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def all_of(rows):
    return torch.ones(len(rows), dtype=torch.bool)


def test_moving_sums_of_the_rows_next_to_a_centre():
    clusters = Clusters(2, 2, 0.5).double()
    clusters.total.copy_(numbers([4, 0], [0, 2]))
    unit = numbers([0.8, 0.6], [0.6, 0.8], [0, 1], [1, 0])
    index = clusters.nearest(unit)
    assert index.tolist() == [0, 1, 1, 0]
    clusters.update(unit, index, torch.tensor([True, True, True, False]))
    assert clusters.total.flatten().tolist() == pytest.approx([2.8, 0.6, 0.6, 2.8])


def test_a_cluster_without_a_centre_is_next_to_nothing():
    clusters = Clusters(2, 2, 0.5).double()
    clusters.total.copy_(numbers([0, 0], [1, 0]))
    assert clusters.nearest(directions(0, 90, 180)).tolist() == [1, 1, 1]


def test_seeds_are_real_rows_all_different_and_stay():
    for seed in range(30):
        clusters = Clusters(3, 2, 0.9).double()
        unit = directions(0, 0, 0, 120, 120, 240, 60, 300)
        real = torch.tensor([True] * 6 + [False] * 2)
        clusters.seed(unit, real, seeded(seed))
        angles = torch.atan2(clusters.total[:, 1], clusters.total[:, 0]).rad2deg().round() % 360
        assert sorted(angles.tolist()) == [0, 120, 240]
        before = clusters.total.clone()
        clusters.seed(directions(10, 20, 30), all_of(range(3)), seeded(seed))
        assert torch.equal(clusters.total, before)


def test_a_seed_is_likely_where_the_other_is_far():
    """k-means++: of a second seed at 60° or 180° from the first, chances are 0.5 to 2."""
    unit, second = directions(0, 60, 180), []
    for seed in range(2000):
        clusters = Clusters(2, 2, 0.9).double()
        clusters.total[0] = unit[0]
        clusters.seed(unit, all_of(unit), seeded(seed))
        second.append(clusters.total[1, 0].item() < 0)
    assert sum(second) / 2000 == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / 2000) ** 0.5)


def test_clusters_that_found_no_row_are_seeded_by_a_later_batch():
    clusters = Clusters(3, 2, 0.9).double()
    clusters.seed(directions(0, 0), all_of(range(2)), seeded())
    assert clusters.total.any(1).tolist() == [True, False, False]
    clusters.seed(directions(0, 90, 200), all_of(range(3)), seeded())
    assert clusters.total.any(1).all()


def test_batches_find_the_clusters_that_made_them():
    """Three directions in eight dimensions, with noise; 20 batches of 64. Two seeds may fall into one of them."""
    true, found = torch.eye(8, dtype=torch.double)[:3], 0
    for seed in range(30):
        random, clusters = seeded(seed), Clusters(3, 8, 0.99).double()
        for step in range(20):
            label = torch.randint(0, 3, (64,), generator=random)
            noise = 0.2 * torch.randn(64, 8, generator=random, dtype=torch.double)
            unit = functional.normalize(true[label] + noise, dim=1)
            if step == 0:
                clusters.seed(unit, all_of(unit), random)
            index = clusters.nearest(unit)
            clusters.update(unit, index, all_of(unit))
        cosine = functional.normalize(clusters.total, dim=1) @ true.T
        if sorted(cosine.argmax(1).tolist()) == [0, 1, 2]:
            found += 1
            assert cosine.amax(1).min() > 0.98
            assert (cosine.argmax(1)[index] == label).double().mean() > 0.9
    assert found >= 28
