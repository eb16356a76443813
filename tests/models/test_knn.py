"""Distances of embeddings to training embeddings."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from outland.models.knn import KNNDistance


def test_distance_is_one_for_one_training_row_in_twenty():
    generator = torch.Generator().manual_seed(0)
    known = torch.randn(3000, 8, generator=generator)
    distance = KNNDistance.fit(known[:2000], 0)
    fresh = distance.distances(known[2000:])
    assert 0.03 < (fresh > 1).float().mean() < 0.07
    assert distance.flags(torch.tensor([0.5, 1.001, 50.0])) == ["near", "edge", "far"]
    clusters = torch.cat([known[:1000] + 20, known[1000:2000] - 20])
    between = KNNDistance.fit(clusters, 0).distances(torch.zeros(1, 8))
    assert distance.flags(between)[0] == "far"  # the gap is no known ground


def test_a_dead_unit_does_not_make_every_row_far():
    generator = torch.Generator().manual_seed(0)
    known = torch.randn(2000, 8, generator=generator)
    known[:, 3:] = 0  # more than half of them are dead
    fresh = torch.randn(1000, 8, generator=generator)
    fresh[:, 3:] = 0.01
    distance = KNNDistance.fit(known, 0)
    assert distance.scale[:3].min() > 0.9
    assert distance.scale[3:].tolist() == pytest.approx([0.1 * float(distance.scale[:3].median())] * 5)
    assert distance.flags(distance.distances(fresh)).count("far") < 30
    assert distance.flags(distance.distances(fresh + 5)).count("far") == 1000
    assert KNNDistance.fit(torch.ones(50, 4), 0).scale.tolist() == [1.0] * 4


def test_the_nearest_are_those_of_all_distances():
    """Candidates come from a product, which rounds: some rows are copies, some far off, some all but equal."""
    generator = torch.Generator().manual_seed(0)
    training = torch.randn(400, 24, generator=generator)
    training[50:80] = training[0]
    training[80:110] = training[1] + 1e-4 * torch.randn(30, 24, generator=generator)
    new = torch.cat([training[:120], 100 + torch.randn(20, 24, generator=generator)])
    known = KNNDistance.fit(training, 0)
    every = torch.cdist(
        (new - known.center) / known.scale, known.reference, compute_mode="donot_use_mm_for_euclid_dist"
    )
    expected = every.kthvalue(5, dim=1).values / known.unit
    assert torch.allclose(known.distances(new), expected, rtol=1e-5, atol=3e-5)
    assert expected.max() > 30


class Largest(TorchDispatchMode):
    """Numbers in the largest tensor that is made."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


def test_many_rows_take_no_more_memory_than_some():
    """Each row has 32 candidates, of as many numbers as itself."""
    rows = torch.randn(20_000, 16, generator=torch.Generator().manual_seed(0))
    known = KNNDistance.fit(rows[:2000], 0)
    with Largest() as largest:
        distances = known.distances(rows)
    assert largest.numbers <= 1024 * 1000  # of some rows to all references; candidates of all would be 10,240,000
    assert torch.equal(torch.cat([known.distances(part) for part in rows.split(700)]), distances)
    assert known.distances(rows[:0]).shape == (0,)
