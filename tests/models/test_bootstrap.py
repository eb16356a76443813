"""Metrics of many draws at once, held to those of one draw after another."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score, root_mean_squared_error

from outland.models import bootstrap
from outland.models.bootstrap import draw_groups, weighted_accuracy, weighted_auc, weighted_rmse


def table(rows: int = 60):
    """Scores with ties, two classes, and groups of different sizes."""
    generator = np.random.default_rng(0)
    score, y = generator.integers(12, size=rows).astype(float), generator.integers(2, size=rows).astype(float)
    return score, y, np.floor(np.sqrt(np.arange(rows)))


@pytest.mark.parametrize(
    ("metric", "plain"),
    [
        (weighted_auc, lambda score, y: roc_auc_score(y, score)),
        (weighted_accuracy, lambda score, y: accuracy_score(y, score)),
        (weighted_rmse, lambda score, y: root_mean_squared_error(y, score)),
    ],
)
@pytest.mark.parametrize("at_once", [1, 60 * 7, 1 << 20])
def test_draws_are_those_of_whole_groups_one_by_one(metric, plain, at_once, monkeypatch):
    monkeypatch.setattr(bootstrap, "_NUMBERS_AT_ONCE", at_once)
    score, y, groups = table()
    draws = draw_groups(lambda weights: metric(score, y, weights)[:, None], groups, seed=3, count=20)
    generator, members = np.random.default_rng(3), [np.flatnonzero(groups == name) for name in np.unique(groups)]
    for (value,) in draws:
        rows = np.concatenate([members[group] for group in generator.integers(len(members), size=len(members))])
        assert value == pytest.approx(plain(score[rows], y[rows]), abs=1e-12)
    assert len(draws) == 20


def test_draws_where_a_metric_is_undefined_are_left_out():
    score, y = np.arange(4.0), np.array([0.0, 0.0, 0.0, 1.0])
    draws = draw_groups(lambda weights: weighted_auc(score, y, weights)[:, None], np.arange(4.0), seed=0, count=200)
    assert 0 < len(draws) < 200
    assert (draws == 1).all()


def test_metrics_of_nothing_are_undefined():
    nothing, weights = np.empty(0), np.ones((2, 0))
    for metric in (weighted_auc, weighted_accuracy, weighted_rmse):
        assert np.isnan(metric(nothing, nothing, weights)).all()
    assert weighted_accuracy(np.array([0.0, 1.0]), np.zeros(2), np.ones((1, 2))) == 0.5
    assert np.isnan(weighted_rmse(np.ones(2), np.zeros(2), np.zeros((1, 2)))).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("metric", [weighted_auc, weighted_accuracy, weighted_rmse])
def test_what_is_not_finite_gives_no_score_where_it_is_drawn(metric, odd):
    score, y = np.array([odd, 0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    drawn, without = metric(score, y, np.array([[1.0, 1, 1, 1, 1], [0.0, 1, 1, 2, 1]]))
    assert np.isnan(drawn)
    assert without == metric(score[1:], y[1:], np.array([[1.0, 1, 2, 1]]))[0]
    assert np.isfinite(without)
