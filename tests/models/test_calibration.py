"""Temperatures and biases of probabilities, and how probabilities are checked."""

import numpy as np
import pytest
import torch

from outland.graphs import Task
from outland.models.calibration import (
    Calibration,
    ReliabilityBin,
    calibrate,
    expected_calibration_error,
    prior_offset,
    reliability_bins,
)

BINARY = Task("binary", 1, "rocauc")
NAN = float("nan")


def draw_labels(rows: int, targets: int = 1, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels that are drawn with just these probabilities."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, targets, generator=generator)
    return logits, (torch.rand(rows, targets, generator=generator) < logits.sigmoid()).float()


def test_temperature_and_bias_undo_overconfidence():
    truth, y = draw_labels(20_000)
    calibration = calibrate(3 * (truth - 0.5), y, BINARY)
    assert calibration.temperature[0] == pytest.approx(3, rel=0.05)
    assert calibration.offset[0] == pytest.approx(0.5, abs=0.05)
    assert calibration.reason == ""
    unbiased = calibrate(3 * truth, y, BINARY, bias=False)
    assert (unbiased.temperature[0], unbiased.offset) == (pytest.approx(3, rel=0.05), (0.0,))


def test_few_rows_cannot_run_into_a_bound():
    """Labels that have nothing to do with the outputs: unpenalised, log T would have no end."""
    worst = 0.0
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        z = 3 * torch.randn(24, 1, generator=generator)
        y = (torch.randperm(24, generator=generator)[:, None] < 11).float()
        calibration = calibrate(z, y, BINARY)
        worst = max(worst, abs(np.log(calibration.temperature[0])), abs(calibration.offset[0]))
        p = calibration.probabilities(z, BINARY)
        loss, constant = torch.nn.functional.binary_cross_entropy(p.double(), y.double()), 0.69
        assert loss < constant + 0.1
    assert worst < 2.5


def test_a_class_of_few_rows_calibrates_nothing_and_says_so():
    truth, _ = draw_labels(200)
    few = torch.cat([torch.ones(191, 1), torch.zeros(9, 1)])
    assert calibrate(truth, few, BINARY) == Calibration(
        (1.0,), (0.0,), "a class has 9 rows to fit them on, and 10 are needed"
    )
    assert "1 row to" in calibrate(truth, torch.cat([torch.ones(199, 1), torch.zeros(1, 1)]), BINARY).reason


def test_every_binary_target_has_its_own():
    truth, y = draw_labels(20_000, targets=3)
    y[:, 2] = torch.where(torch.arange(len(y)) < 19_990, torch.tensor(NAN), torch.ones(()))  # one class is known
    y[::2, 1] = NAN
    task = Task("binary", 3, "rocauc")
    calibration = calibrate(truth * torch.tensor([3.0, 0.5, 7.0]), y, task)
    assert calibration.temperature[:2] == pytest.approx((3, 0.5), rel=0.05)
    assert (calibration.temperature[2], calibration.offset[2]) == (1.0, 0.0)
    assert "a class has 0 rows" in calibration.reason
    probabilities = calibration.probabilities(truth * torch.tensor([3.0, 0.5, 1.0]), task)
    known = y[1::2, 1]
    assert float(probabilities[1::2, 1].mean()) == pytest.approx(float(known.mean()), abs=0.01)
    assert torch.allclose(probabilities[:, 2], truth[:, 2].sigmoid())


def test_the_classes_of_a_multiclass_task_share_one_temperature():
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(20_000, 3, generator=generator)
    y = torch.multinomial(truth.softmax(1), 1, generator=generator).flatten()
    task = Task("multiclass", 3, "accuracy")
    calibration = calibrate(4 * truth + torch.tensor([2.0, 0.0, 0.0]), y, task)
    assert calibration.temperature == (pytest.approx(4, rel=0.05),)
    assert calibration.offset[0] - calibration.offset[1] == pytest.approx(-0.5, abs=0.06)
    assert torch.allclose(calibration.probabilities(4 * truth, task).sum(1), torch.ones(len(y)))


def test_a_rare_class_among_several_keeps_its_bias_and_shares_the_temperature():
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(20_000, 3, generator=generator) - torch.tensor([0.0, 0.0, 7.0])
    y = torch.multinomial(truth.softmax(1), 1, generator=generator).flatten()
    assert int((y == 2).sum()) > 0
    y[(y == 2).nonzero().flatten()[9:]] = 0
    calibration = calibrate(4 * truth, y, Task("multiclass", 3, "accuracy"))
    assert calibration.temperature == (pytest.approx(4, rel=0.05),)
    assert (calibration.offset[2], calibration.reason) == (0.0, "")
    assert sum(calibration.offset) == pytest.approx(0, abs=1e-6)
    few = torch.where(torch.arange(200) < 6, 1 + torch.arange(200) % 2, torch.zeros((), dtype=torch.long))
    alone = calibrate(torch.randn(200, 3), few, Task("multiclass", 3, "accuracy"))
    assert alone == Calibration((1.0,), (0.0,) * 3, "1 of 3 classes has the 10 rows that are needed to fit them on")


@pytest.mark.parametrize("rows", [0, 3, 9])
def test_a_rare_class_keeps_its_probability(rows):
    """The others' biases cannot take it away together: softmax does not change when all move."""
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0] * 180 + [1] * 212 + [2] * rows)
    z = 2 * torch.randn(len(y), 3, generator=generator) + 4 * torch.nn.functional.one_hot(y, 3)  # T is 1
    z[:, 2] -= 1
    task = Task("multiclass", 3, "accuracy")
    before, after = (
        float(calibration.probabilities(z, task)[:392, 2].mean())
        for calibration in (Calibration.identity(task), calibrate(z, y, task))
    )
    assert after == pytest.approx(before, rel=0.25)


def test_numbers_are_not_calibrated():
    task = Task("regression", 2, "rmse")
    assert calibrate(torch.randn(9, 2), torch.randn(9, 2), task) == Calibration.identity(task)
    assert Calibration.identity(task) == Calibration((1.0, 1.0), (0.0, 0.0))
    assert Calibration.identity(Task("multiclass", 4, "accuracy")) == Calibration((1.0,), (0.0,) * 4)


def test_the_offset_takes_back_how_classes_were_drawn():
    assert prior_offset([100, 10], [100, 100], BINARY) == (pytest.approx(np.log(0.1)),)
    three = prior_offset([80, 10, 10], [80, 80, 40], Task("multiclass", 3, "accuracy"))
    assert three == tuple(pytest.approx(np.log(p / q)) for p, q in ((0.8, 0.4), (0.1, 0.4), (0.1, 0.2)))
    assert prior_offset([], [], Task("binary", 3, "rocauc")) == (0.0, 0.0, 0.0)
    assert prior_offset([30, 4], [30, 4], BINARY) == (0.0,)


def test_a_class_without_training_rows_moves_nothing():
    assert prior_offset([30, 0], [30, 0], BINARY) == (0.0,)
    assert prior_offset([5, 0, 6], [5, 0, 6], Task("multiclass", 3, "accuracy")) == (0.0, 0.0, 0.0)


def test_the_expected_calibration_error_is_by_bins():
    p = np.array([0.05, 0.05, 0.95, 0.95, 1.0])
    y = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    assert reliability_bins(p, y) == [
        ReliabilityBin(0.05, 0.5, 2),
        ReliabilityBin(pytest.approx(2.9 / 3), 1.0, 3),
    ]
    assert expected_calibration_error(p, y) == pytest.approx((2 * 0.45 + 3 * 0.1 / 3) / 5)
    logits, y = draw_labels(20_000)
    right, wrong = (expected_calibration_error((t * logits).sigmoid().numpy(), y.numpy()) for t in (1, 3))
    assert right < 0.015 < 0.08 < wrong
