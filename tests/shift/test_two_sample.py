"""The classifier two-sample test."""

import pytest
import torch

from outland.errors import OutlandError
from outland.estimators.inputs import read_inputs
from outland.shift.two_sample import fast_shift, two_sample
from tests.models.cases import bbbp


def normal(rows, seed, shift=0.0, columns=10):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) + shift


def test_equal_sets_are_not_told_apart():
    results = [two_sample(normal(150, seed), normal(100, seed + 50)) for seed in range(20)]
    assert sum(result.is_shifted for result in results) <= 4
    assert sum(result.auc for result in results) / 20 == pytest.approx(0.5, abs=0.04)
    for result in results:
        assert result.null[0] == pytest.approx(0.5, abs=0.03)
        assert 0.52 < result.null[1] < 0.62


def test_a_shift_of_the_mean_and_one_of_the_spread_are_seen():
    mean = two_sample(normal(300, 0), normal(300, 1, 0.3))
    assert mean.is_shifted
    assert mean.auc == pytest.approx(0.75, abs=0.06)  # at best Φ(0.3 √10 / √2) = 0.75
    spread = two_sample(normal(300, 0), 2 * normal(300, 1))
    assert spread.is_shifted
    assert spread.auc > 0.8
    assert two_sample(normal(300, 0), normal(300, 1, 3.0)).auc > 0.99


def test_a_second_is_enough_and_five_hundred_rows_a_side():
    result = two_sample(normal(3000, 0, columns=65), normal(4000, 1, columns=65))
    assert result.rows == (500, 500)
    assert result.seconds < 10  # 0.6 s on a free core


def test_missing_numbers_and_constant_columns_do_no_harm():
    first, second = normal(100, 0), normal(100, 1)
    first[0, 0], first[:, 1], second[:, 1] = torch.nan, 1.0, 1.0
    assert 0.3 < two_sample(first, second).auc < 0.7
    assert two_sample(torch.ones(30, 2), torch.ones(30, 2)).auc == pytest.approx(0.5, abs=0.2)
    with pytest.raises(OutlandError, match="at least 20 rows a side"):
        two_sample(first[:19], second)


def test_new_molecules_are_compared_with_training_ones(fitted):
    smiles, _ = bbbp()
    same = fast_shift(fitted.model_, read_inputs(smiles).graphs)
    assert not same.is_shifted
    other = fast_shift(fitted.model_, read_inputs(["C" * n + "O" * (n % 3) for n in range(3, 60)]).graphs)
    assert other.auc > 0.95
    assert other.is_shifted
