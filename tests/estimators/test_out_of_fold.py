"""Outputs on held-out rows, and the epochs that are best on all folds together."""

import pytest
import torch

from outland.estimators.contenders import PATIENCE, OutputRecorder, calibrated_loss
from outland.estimators.judgement import judge
from outland.estimators.out_of_fold import HeldOut, OutOfFold, out_of_fold
from outland.graphs import Task
from outland.models.comparison import STACK
from outland.storage.snapshots import Snapshot
from outland.tables.folds import Fold

BINARY = Task("binary", 1, "rocauc")
NUMBER = Task("regression", 1, "rmse", mean=(10.0,), std=(2.0,))


def folds(rows: int = 40, count: int = 2, repeats: int = 1) -> tuple[Fold, ...]:
    every = torch.arange(rows)
    return tuple(
        Fold(every[(every + repeat) % count != fold], every[(every + repeat) % count == fold], repeat)
        for repeat in range(repeats)
        for fold in range(count)
    )


def held_out(y: torch.Tensor, task: Task = BINARY, **rest) -> HeldOut:
    parts = folds(len(y), **rest)
    fold_of = torch.zeros(len(y), dtype=torch.long)
    for number, fold in reversed([*enumerate(parts)]):
        fold_of[fold.held_out] = number
    return HeldOut(torch.arange(len(y)), fold_of, y, task, parts)


def result(outputs: list[torch.Tensor], **tensors: torch.Tensor) -> Snapshot:
    return Snapshot({"outputs": torch.stack(outputs), **tensors}, {"seconds": 2.0})


def truth(rows: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = 2 * torch.randn(rows, 1, generator=generator)
    return z, (torch.rand(rows, 1, generator=generator) < z.sigmoid()).double()


def test_rows_of_several_divisions_have_the_mean_of_their_outputs():
    rows = held_out(torch.zeros(10, 1), count=2, repeats=2)
    parts = [torch.full((len(fold.held_out), 1), float(number)) for number, fold in enumerate(rows.folds)]
    gathered = rows.gather(parts)
    assert gathered[0].item() == pytest.approx((0 + 3) / 2)  # row 0 is in fold 0, then in the second of the repeat
    assert gathered[1].item() == pytest.approx((1 + 2) / 2)


def test_the_epoch_is_the_best_of_all_folds_together_and_short_folds_keep_their_last():
    z, y = truth(40)
    rows = held_out(y)
    first, second = (fold.held_out for fold in rows.folds)
    noise = torch.randn(40, 1, generator=torch.Generator().manual_seed(1))
    results = [
        result([noise[first], z[first], noise[first]], distances=torch.ones(len(first))),
        result([noise[second], z[second]], distances=torch.zeros(len(second))),
    ]
    outputs = out_of_fold("erm", results, rows)
    assert (outputs.epochs, outputs.seconds, len(outputs.losses)) == (2, 4.0, 3)
    assert torch.allclose(outputs.outputs, z.double())
    assert outputs.losses[1] == min(outputs.losses)
    assert outputs.distances.tolist() == [1.0, 0.0] * 20


def test_numbers_come_in_the_labels_units_and_are_compared_standardized():
    y = torch.linspace(-1, 1, 8)[:, None]
    rows = held_out(y, NUMBER)
    results = [result([10 + 2 * y[fold.held_out]]) for fold in rows.folds]
    outputs = out_of_fold("forest", results, rows)
    assert torch.allclose(outputs.outputs, y.double(), atol=1e-6)
    assert outputs.losses[0] == pytest.approx(0.0, abs=1e-9)
    assert outputs.distances is None


def test_the_stack_is_delivered_where_folds_favour_it_and_else_the_best():
    z, y = truth()
    noise = torch.randn(3, 400, 1, generator=torch.Generator().manual_seed(2))
    rows = held_out(y, count=5)
    first, second = (OutOfFold(name, (z + noise[i]).double(), 1, (), 1.0) for i, name in enumerate(("forest", "erm")))
    both = judge([first, second], rows)
    assert both.delivered == STACK
    assert both.losses[STACK] < min(both.losses["forest"], both.losses["erm"])
    assert both.weights["forest"] == pytest.approx(0.5, abs=0.15)
    assert "the weighted mean of forest and erm has the least loss" in both.reason
    useless = OutOfFold("aia", noise[2].double(), 9, (), 1.0)
    alone = judge([OutOfFold("forest", z.double(), 1, (), 1.0), useless], rows)
    assert (alone.delivered, alone.weights) in (("forest", {"forest": 1.0}), (STACK, alone.weights))
    assert alone.weights["forest"] > 0.9
    single = judge([first], rows)
    assert (single.delivered, single.weights, single.reason) == (
        "forest",
        {"forest": 1.0},
        "forest was the only contender",
    )


def test_patience_ends_a_fold_on_a_cpu():
    z, y = truth(100)
    recorder = OutputRecorder()
    recorder.judge_by(y, (0.0,), BINARY)
    noise = torch.randn(100, 1, generator=torch.Generator().manual_seed(3))
    for epoch in range(PATIENCE + 3):
        assert not recorder.is_over
        recorder.on_evaluation_end(epoch, z if epoch == 2 else z + 2 * noise)
        recorder.on_epoch_end({"epoch": epoch}, "rocauc")
    assert recorder.is_over
    outputs = recorder.outputs()
    assert outputs.shape == (PATIENCE + 3, 100, 1)
    assert torch.equal(outputs[2], z)
    assert len(recorder.seconds()) == PATIENCE + 3


def test_the_loss_that_epochs_are_chosen_by_does_not_mind_the_scale():
    z, y = truth()
    assert calibrated_loss(z, y, BINARY) == pytest.approx(calibrated_loss(5 * z + 1, y, BINARY), abs=2e-3)
