"""Temperatures and offsets of probabilities."""

import numpy as np
import pytest
import torch

from outland.graphs import Task
from outland.models.calibration import Calibration, calibrate, prior_offset

BINARY = Task("binary", 1, "rocauc")
NAN = float("nan")


def draw_labels(rows: int, targets: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels that are drawn with just these probabilities."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(rows, targets, generator=generator)
    return logits, (torch.rand(rows, targets, generator=generator) < logits.sigmoid()).float()


def test_the_temperature_undoes_overconfidence():
    truth, y = draw_labels(20_000)
    assert calibrate(3 * truth, y, (0.0,), BINARY).temperature[0] == pytest.approx(3, rel=0.05)
    assert calibrate(3 * truth - 1.5, y, (0.5,), BINARY).temperature[0] == pytest.approx(3, rel=0.05)
    assert calibrate(truth, torch.ones_like(y), (0.0,), BINARY) == Calibration((1.0,), (0.0,))


def test_every_binary_target_has_a_temperature_of_its_own():
    truth, y = draw_labels(20_000, targets=3)
    y[:, 2] = torch.where(torch.arange(len(y)) < 19_990, torch.tensor(NAN), torch.ones(()))  # one class is known
    y[::2, 1] = NAN
    task = Task("binary", 3, "rocauc")
    calibration = calibrate(truth * torch.tensor([3.0, 0.5, 7.0]), y, (0.0,) * 3, task)
    assert calibration.temperature[:2] == pytest.approx((3, 0.5), rel=0.05)
    assert calibration.temperature[2] == 1.0
    probabilities = calibration.probabilities(truth * torch.tensor([3.0, 0.5, 1.0]), task)
    known = y[1::2, 1]
    assert float(probabilities[1::2, 1].mean()) == pytest.approx(float(known.mean()), abs=0.01)
    assert torch.allclose(probabilities[:, 2], truth[:, 2].sigmoid())


def test_the_classes_of_a_multiclass_task_share_one_temperature():
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(20_000, 3, generator=generator)
    y = torch.multinomial(truth.softmax(1), 1, generator=generator).flatten()
    task = Task("multiclass", 3, "accuracy")
    calibration = calibrate(4 * truth, y, (0.0,) * 3, task)
    assert calibration.temperature == (pytest.approx(4, rel=0.05),)
    assert torch.allclose(calibration.probabilities(4 * truth, task).sum(1), torch.ones(len(y)))


def test_numbers_are_not_calibrated():
    task = Task("regression", 2, "rmse")
    assert calibrate(torch.randn(9, 2), torch.randn(9, 2), (0.0, 0.0), task) == Calibration.identity(task)
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
