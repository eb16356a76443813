"""Expected errors and flags."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from outland.graphs import Task
from outland.models.conformal import Conformal
from outland.models.expected_error import ExpectedError, FlagErrors, prediction_signals, row_errors

BINARY, NUMBERS = Task("binary", 1, "rocauc"), Task("regression", 1, "rmse")


def rows(count, seed=0):
    """Errors that grow with dissimilarity and spread, and not with distance."""
    random = np.random.default_rng(seed)
    signals = {name: random.random(count) for name in ("dissimilarity", "distance", "spread")}
    scale = 0.2 + signals["dissimilarity"] + 0.5 * signals["spread"]
    return signals, scale * np.abs(random.normal(size=count)), scale * np.sqrt(2 / np.pi)


def test_the_expected_error_is_learned_and_sorts_errors():
    signals, error, _ = rows(4000)
    expected = ExpectedError.fit(signals, error)
    new, new_error, new_truth = rows(4000, 1)
    assert np.corrcoef(expected.expected(new), new_truth)[0, 1] > 0.97
    assert expected.expected(new).mean() == pytest.approx(new_truth.mean(), rel=0.1)
    flags = np.array(expected.flags(new))
    means = [new_error[flags == flag].mean() for flag in ("near", "edge", "far")]
    assert means[0] < 0.8 * means[1] < 0.8 * means[2]
    assert [np.mean(flags == flag) for flag in ("near", "edge", "far")] == pytest.approx([0.6, 0.25, 0.15], abs=0.03)
    assert expected.sorts
    assert [flag.rows for flag in expected.by_flag] == pytest.approx([2400, 1000, 600], rel=0.1)
    assert [flag.error for flag in expected.by_flag] == pytest.approx(means, rel=0.1)


def test_a_worse_signal_never_lowers_the_expected_error():
    signals, error, _ = rows(300)
    expected = ExpectedError.fit(signals, error)
    base = {name: np.full(50, 0.4) for name in signals}
    for name in signals:
        assert (np.diff(expected.expected({**base, name: np.linspace(0, 1.2, 50)})) >= 0).all()
    assert min(expected.weights) >= 0


def test_signals_without_meaning_do_not_sort_and_it_says_so():
    outcomes = []
    for seed in range(20):
        signals, _, _ = rows(300, seed)
        noise = np.abs(np.random.default_rng(seed + 100).normal(size=300))
        outcomes.append(ExpectedError.fit(signals, noise).sorts)
    assert sum(outcomes) <= 3


def test_what_is_like_nothing_known_is_far_in_any_case():
    signals, error, _ = rows(400)
    signals["spread"] = error  # all that is learned from
    expected = ExpectedError.fit(signals, error)
    row = {"dissimilarity": np.array([0.9, 2.0, 0.9, np.nan]), "distance": np.array([0.9, 0.9, 3.0, 0.1])}
    row["spread"] = np.zeros(4)
    assert expected.flags(row) == ["near", "far", "far", ""]


def test_few_rows_teach_nothing():
    signals, error, _ = rows(49)
    assert ExpectedError.fit(signals, error) is None
    signals, error, _ = rows(60)
    error[:11] = np.nan
    assert ExpectedError.fit(signals, error) is None
    assert ExpectedError.fit({}, np.ones(100)) is None


def test_rows_of_a_group_are_judged_together():
    """Each group has its own error and its own signal, which says little across groups."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 30)
    signals = {"distance": random.permutation(20)[groups] + 0.01 * random.random(600)}
    error = random.random(20)[groups] + 0.05 * signals["distance"]
    alone, together = (ExpectedError.fit(signals, error, own).by_flag for own in (None, groups))
    assert alone != together


def test_signals_of_predictions():
    members = torch.tensor([[[2.0], [2.0]], [[-3.0], [3.0]]])
    p = np.array([[0.1, 0.9], [0.5, 0.5]])
    signals = prediction_signals(
        BINARY, members=members, probabilities=p, similarity=np.array([1.0, 0.25]), distances=torch.tensor([0.5, 2])
    )
    assert {name: values.tolist() for name, values in signals.items()} == {
        "dissimilarity": [0.0, 0.75],
        "distance": [0.5, 2.0],
        "spread": [0.0, pytest.approx(torch.tensor(3.0).sigmoid().item() - 0.5)],
        "uncertainty": pytest.approx([0.1, 0.5]),
    }
    assert prediction_signals(NUMBERS, members=members[:, :1])["extremity"].tolist() == [2.0, 3.0]
    two = prediction_signals(replace(BINARY, outputs=2), probabilities=np.array([[0.1, 0.6]]))
    assert two["uncertainty"].tolist() == [pytest.approx(0.25)]


def test_errors_of_rows():
    nan = np.nan
    wrong = row_errors(BINARY, np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, nan], [0, 1], [nan, nan]]))
    assert wrong[:2].tolist() == [0.0, 0.5]
    assert np.isnan(wrong[2])
    assert row_errors(NUMBERS, np.array([1.0, 2.0]), np.array([1.5, 4.0])).tolist() == [0.5, 2.0]


def test_flags_keep_their_counts():
    signals, error, _ = rows(100)
    by_flag = ExpectedError.fit(signals, error).by_flag
    assert sum(flag.rows for flag in by_flag) == 100
    assert by_flag[0] == FlagErrors(pytest.approx(60, abs=15), pytest.approx(by_flag[0].error))


def test_intervals_by_learned_errors_hold_as_often_as_asked():
    """By simulation: scales learned from the rows themselves make their scores too small, and intervals too short."""
    shares = {"of others": [], "of itself": []}
    for seed in range(100):
        random = np.random.default_rng(seed)
        signals = {f"signal {number}": random.random(1080) for number in range(5)}
        y = (0.2 + signals["signal 0"]) * random.normal(size=1080)
        old, new = ({name: each[part] for name, each in signals.items()} for part in (slice(80), slice(80, None)))
        learned, of_others = ExpectedError.fit_out_of_fold(old, np.abs(y[:80]))
        for name, scale in (("of others", of_others), ("of itself", learned.expected(old))):
            half = Conformal.of_numbers(np.zeros(80), y[:80], scale).half_widths(1000, learned.expected(new))
            shares[name].append((np.abs(y[80:]) <= half[:, 0]).mean())
    assert np.mean(shares["of others"]) == pytest.approx(0.9, abs=0.012)
    assert np.mean(shares["of itself"]) < np.mean(shares["of others"]) - 0.012


def test_expected_errors_out_of_fold_are_of_rows_with_an_error():
    signals, error, _ = rows(200)
    error[:3] = np.nan
    learned, of_others = ExpectedError.fit_out_of_fold(signals, error, np.zeros(200))
    assert np.isnan(of_others[:3]).all()
    assert of_others[3:] == pytest.approx(learned.expected(signals)[3:], rel=0.5)
    assert of_others[3:].tolist() != learned.expected(signals)[3:].tolist()
