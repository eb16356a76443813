"""Molbbbp-size with cuts of its held-out molecules."""

import numpy as np
import pytest
from benchmarks.halves import rocauc, selected_score, summary, tables
from sklearn.metrics import roc_auc_score


@pytest.fixture
def logits() -> np.ndarray:
    """Of six epochs and forty molecules, with ties."""
    return np.random.default_rng(0).integers(0, 9, (6, 40)).astype(np.float32)


@pytest.fixture
def y() -> np.ndarray:
    return np.random.default_rng(1).permutation(np.repeat([0.0, 1.0], 20))


def test_the_score_is_of_the_rest_at_the_epoch_that_is_best_on_validation(logits, y):
    assert rocauc(logits, y) == pytest.approx([roc_auc_score(y, row) for row in logits])
    val = np.arange(0, 40, 2)
    epoch = max(range(6), key=lambda each: (roc_auc_score(y[val], logits[each, val]), each))
    assert selected_score(logits, y, val) == pytest.approx(100 * roc_auc_score(y[1::2], logits[epoch, 1::2]))
    twice = np.concatenate([logits[[epoch]], np.where(np.arange(40) % 2, 0, logits[[epoch]])])
    assert selected_score(twice, y, val) == 50  # of equals the last


def test_a_table_has_one_cut_for_all_seeds_or_one_for_each(logits, y):
    own, shared = (tables([logits, logits], y, 30, shared=shared) for shared in (False, True))
    assert own.shape == shared.shape == (30, 2)
    assert (own[:, 0] != own[:, 1]).mean() > 0.8
    assert (shared[:, 0] == shared[:, 1]).all()
    assert (shared[:, 0] == own[:, 0]).all()  # the same cuts, so that methods and tables can be compared
    told, means = summary([logits, logits], y, 30)
    assert told["our cut"]["scores"] == [selected_score(logits, y, np.arange(20))] * 2
    assert told["our cut"]["share of cuts below"] == (shared[:, 0] < told["our cut"]["mean"]).mean()
    assert told["our cut"]["spread over seeds"] == told["another cut"]["spread over seeds"] == 0
    assert told["a cut a seed"]["mean"] == pytest.approx(own.mean())
    assert means["another cut"] == pytest.approx(shared[:, 0])
    low, high = told["a cut a seed"]["2.5% to 97.5%"]
    assert low < told["a cut a seed"]["mean"] < high
