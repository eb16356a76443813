"""Sets and intervals, and how often they hold the truth."""

import numpy as np
import pytest
import torch

from outland.graphs import Task
from outland.models.conformal import Conformal, LikelihoodRatio

BINARY, THREE = Task("binary", 1, "rocauc"), Task("multiclass", 3, "accuracy")


def classified(rows, seed, classes=2, shift=0.0):
    """Features, labels and probabilities, which are overconfident."""
    random = np.random.default_rng(seed)
    x = random.normal(shift, 1, (rows, classes))
    truth = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    y = (random.random(rows)[:, None] > truth.cumsum(1)).sum(1)
    p = np.exp(3 * x) / np.exp(3 * x).sum(1, keepdims=True)
    return x, y.astype(float), p


@pytest.mark.parametrize(("task", "classes"), [(BINARY, 2), (THREE, 3)])
@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_each_class_is_covered_as_often_as_asked(task, classes, coverage):
    _, y, p = classified(4000, 0, classes)
    conformal = Conformal.of_classes(p, y, task)
    _, new, q = classified(20_000, 1, classes)
    sets = conformal.sets(q, task, coverage)[:, 0]
    for label in range(classes):
        rows = new == label
        assert sets[rows, label].mean() == pytest.approx(coverage, abs=0.02)
    assert sets[np.arange(len(new)), new.astype(int)].mean() == pytest.approx(coverage, abs=0.015)


def test_targets_have_their_own_scores_and_gaps():
    _, y, p = classified(3000, 0)
    _, other, q = classified(3000, 5)
    labels = np.stack([y, other], 1)
    labels[::2, 1] = np.nan
    conformal = Conformal.of_classes(np.stack([p[:, 1], q[:, 1]], 1), labels, Task("binary", 2, "rocauc"))
    assert conformal.scores[:, 1].isnan().sum() == 1500
    sets = conformal.sets(np.stack([p[:, 1], q[:, 1]], 1), Task("binary", 2, "rocauc"), 0.9)
    assert sets.shape == (3000, 2, 2)
    rows = np.arange(1, 3000, 2)
    assert sets[rows, 1, other[rows].astype(int)].mean() == pytest.approx(0.9, abs=0.01)


def test_too_few_rows_of_a_class_put_it_in_every_set():
    p, y = np.full((30, 2), 0.5), np.array([0.0] * 22 + [1.0] * 8)
    sets = Conformal.of_classes(p, y, BINARY).sets(np.array([[1.0, 0.0]]), BINARY, 0.9)
    assert sets.tolist() == [[[True, True]]]
    nine = np.array([0.0] * 21 + [1.0] * 9)
    assert Conformal.of_classes(p, nine, BINARY).sets(np.array([[1.0, 0.0]]), BINARY, 0.9).tolist() == [[[True, False]]]
    assert Conformal.of_numbers(np.zeros(5), np.ones(5)).half_widths(1).tolist() == [[np.inf]]


def test_intervals_follow_the_scale_of_the_errors():
    random = np.random.default_rng(0)
    scale = random.uniform(0.1, 2, 23_000)
    y = scale * random.standard_t(4, 23_000)
    conformal = Conformal.of_numbers(np.zeros(3000), y[:3000], scale[:3000])
    half = conformal.half_widths(20_000, scale[3000:], 0.9)[:, 0]
    inside = np.abs(y[3000:]) <= half
    assert inside.mean() == pytest.approx(0.9, abs=0.015)
    wide = scale[3000:] > 1
    assert inside[wide].mean() == pytest.approx(inside[~wide].mean(), abs=0.02)
    plain = Conformal.of_numbers(np.zeros(3000), y[:3000]).half_widths(20_000)[:, 0]
    assert np.ptp(plain) == 0
    assert (np.abs(y[3000:]) <= plain).mean() == pytest.approx(0.9, abs=0.015)
    assert half.mean() < plain.mean()


def test_weights_keep_the_coverage_under_a_known_shift():
    """Errors grow with x, and new rows have a larger x: without weights intervals are too short."""
    random = np.random.default_rng(0)
    x, new = random.normal(0, 1, 6000), random.normal(1, 1, 20_000)
    y, new_y = (random.normal(size=len(own)) * np.exp(0.5 * own) for own in (x, new))
    conformal = Conformal.of_numbers(np.zeros(6000), y)
    ratio = tuple(np.exp(own - 0.5) for own in (x, new))
    known, none = (
        (np.abs(new_y) <= conformal.half_widths(len(new), coverage=0.9, weights=weights)[:, 0]).mean()
        for weights in (ratio, None)
    )
    assert known == pytest.approx(0.9, abs=0.015)
    assert none < 0.85
    estimated = LikelihoodRatio.fit(x[:, None], new[:1000, None], limit=20.0)
    weights = (estimated(x[:, None]), estimated(new[:, None]))
    covered = (np.abs(new_y) <= conformal.half_widths(len(new), coverage=0.9, weights=weights)[:, 0]).mean()
    assert covered == pytest.approx(0.9, abs=0.02)


def test_the_ratio_is_near_one_without_a_shift_and_bounded_with_one():
    random = np.random.default_rng(0)
    training, same = random.normal(size=(600, 20)), random.normal(size=(400, 20))
    ratio = LikelihoodRatio.fit(training, same)(training)
    assert ratio.mean() == pytest.approx(1, abs=0.1)
    assert ratio.std() < 0.3
    assert LikelihoodRatio.fit(training, same).auc == pytest.approx(0.5, abs=0.06)
    far = LikelihoodRatio.fit(training, same + 5)
    assert far.auc > 0.99
    assert far(same + 5).max() == pytest.approx(5)
    assert far(training).min() == pytest.approx(0.2)
    constant = np.concatenate([training, np.ones((600, 1))], 1)
    assert np.isfinite(LikelihoodRatio.fit(constant, constant[:300])(constant)).all()


def test_empty_sets_are_possible():
    p = np.tile([0.99, 0.01], (200, 1))
    p[100:] = p[100:, ::-1]
    conformal = Conformal.of_classes(p, np.repeat([0.0, 1.0], 100), BINARY)
    assert conformal.sets(np.array([[0.5, 0.5]]), BINARY).tolist() == [[[False, False]]]
    assert conformal.features is None
    kept = Conformal.of_classes(p, np.repeat([0.0, 1.0], 100), BINARY, torch.zeros(200, 3))
    assert kept.features.shape == (200, 3)


def test_rows_of_the_very_same_probability_are_in_or_out_together():
    """Scores are kept as float32; 1 - p, of which 0.1 and 0.7 are not exact there, must not fall on the other side."""
    p = np.repeat([0.9, 0.3], [90, 10])
    probabilities, y = np.stack([1 - p, p], 1), np.ones((100, 1))
    conformal = Conformal.of_classes(probabilities, y, BINARY)
    assert conformal.sets(probabilities, BINARY, 0.85)[:, 0, 1].tolist() == [True] * 90 + [False] * 10
    assert conformal.sets(probabilities, BINARY, 0.95)[:, 0, 1].all()
