"""Weights of contenders by their out-of-fold outputs."""

import pytest
import torch

from outland.estimators.stacking import combine, cross_fitted, mean_loss, prediction_loss
from outland.graphs import Task

BINARY, NUMBER = Task("binary", 1, "rocauc"), Task("regression", 1, "rmse")


def logits(rows: int = 600, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two contenders that see the same truth with noise of their own, and labels."""
    generator = torch.Generator().manual_seed(seed)
    truth = 1.5 * torch.randn(rows, 1, generator=generator, dtype=torch.double)
    y = (torch.rand(rows, 1, generator=generator) < truth.sigmoid()).double()
    noise = torch.randn(2, rows, 1, generator=generator, dtype=torch.double)
    return truth + noise[0], truth + noise[1], y


def test_the_loss_is_the_mean_over_known_targets():
    nan = float("nan")
    task = Task("binary", 2, "rocauc")
    losses = prediction_loss(torch.zeros(3, 2), torch.tensor([[1.0, nan], [0.0, 1.0], [nan, nan]]), task)
    assert losses[:2].tolist() == pytest.approx([0.6931, 0.6931], abs=1e-4)
    assert losses[2].isnan()
    assert mean_loss(torch.tensor([[1.0], [3.0]]), torch.tensor([[0.0], [1.0]]), NUMBER) == pytest.approx(2.5)
    classes = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert mean_loss(classes, torch.tensor([2]), Task("multiclass", 3, "accuracy")) == pytest.approx(1.3863, abs=1e-4)


def test_equal_contenders_share_the_weight_and_noise_gets_none():
    first, second, y = logits(3000)
    noise = torch.randn(3000, 1, generator=torch.Generator().manual_seed(9), dtype=torch.double)
    weights = combine(torch.stack([first, second, noise]), y, BINARY).weights
    assert weights[:2].tolist() == pytest.approx([0.5, 0.5], abs=0.12)
    assert float(weights[2]) < 0.1
    assert float(weights.sum()) == pytest.approx(1.0)


def test_scale_does_not_make_a_contender_better():
    first, second, y = logits()
    plain = combine(torch.stack([first, second]), y, BINARY)
    scaled = combine(torch.stack([first, 8 * second]), y, BINARY)
    ratio = float(plain.coefficients[1] / plain.coefficients[0])
    assert float(8 * scaled.coefficients[1] / scaled.coefficients[0]) == pytest.approx(ratio, rel=0.05)


def test_a_contender_that_is_upside_down_is_left_out():
    first, second, y = logits()
    combination = combine(torch.stack([first, -second]), y, BINARY)
    assert combination.weights.tolist() == [1.0, 0.0]


def test_numbers_are_the_mean_of_the_best_few():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(4000, 1, generator=generator, dtype=torch.double)
    noise = torch.randn(3, 4000, 1, generator=generator, dtype=torch.double)
    stacked = torch.stack([y + 3 * noise[0], y + 1.2 * noise[1], y + noise[2]])
    combination = combine(stacked, y, NUMBER)
    assert combination.weights.tolist() == [
        0.0,
        0.5,
        0.5,
    ]  # variances 9, 1.44 and 1: the mean of all has 1.27, of two 0.61
    assert combination.bias.tolist() == [0.0]
    far = combine(stacked[[0, 2]], y, NUMBER)
    assert far.weights.tolist() == [0.5, 0.5]  # one alone is no mean: it is compared with it
    assert combine(stacked[2:], y, NUMBER).weights.tolist() == [1.0]
    combined, mean = cross_fitted([*stacked], y, torch.arange(4000) % 5, NUMBER)
    assert torch.equal(combined, mean)
    assert mean_loss(combined, y, NUMBER) == pytest.approx(0.61, abs=0.05)


def test_the_honest_estimate_of_a_stack_uses_the_other_folds():
    first, second, y = logits()
    fold_of = torch.arange(600) % 5
    combined, mean = cross_fitted([first, second], y, fold_of, BINARY)
    others = combine(torch.stack([first, second])[:, fold_of != 2], y[fold_of != 2], BINARY)
    held_out = torch.stack([first, second])[:, fold_of == 2]
    assert torch.allclose(combined[fold_of == 2], others.outputs(held_out))
    assert torch.allclose(mean[fold_of == 2], (others.weights[:, None, None] * held_out).sum(0))
    alone = cross_fitted([first], y, fold_of, BINARY)[0]
    assert mean_loss(combined, y, BINARY) < mean_loss(alone, y, BINARY) < mean_loss(first, y, BINARY)


def test_one_fold_weighs_contenders_alike():
    first, second, y = logits(50)
    combined, mean = cross_fitted([first, second], y, torch.zeros(50), BINARY)
    assert torch.allclose(combined, (first + second) / 2)
    assert torch.allclose(mean, combined)
