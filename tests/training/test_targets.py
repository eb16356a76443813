"""Labels made ready for training."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from outland.graphs import Features, PackedGraphs, Schema, Splits, Task
from outland.models.calibration import prior_offset
from outland.spec import RunSpec
from outland.training.targets import NoTarget, balanced_index, class_counts, prepare_targets, standardize

BINARY = Task("binary", 1, "rocauc")
NAN = math.nan


def splits_of(y: torch.Tensor, task: Task, train: torch.Tensor | None = None) -> Splits:
    """Graphs of one node with these labels, the training rows first."""
    count = torch.ones(len(y), dtype=torch.long)
    edges = torch.zeros(2, 0, dtype=torch.long)
    graphs = PackedGraphs(torch.ones(len(y), 1), edges, count, count * 0, y, edges[0])
    index = torch.arange(len(y))
    return Splits(graphs, {"train": index if train is None else train, "val": index[-1:]}, Schema(Features(1), task))


def spec(balance: bool) -> RunSpec:
    changes = {"train": {"class_balance": balance}}
    return RunSpec.make("memory", "erm", domain="size", kind="covariate", changes=changes, data_checksum="0")


def test_rare_classes_are_drawn_more_often_and_probabilities_corrected():
    y = torch.zeros(110, 1)
    y[:10] = 1
    index, draws = balanced_index(y, torch.arange(110), 0)
    counts = class_counts(splits_of(y, BINARY))
    assert (counts, draws) == ([100, 10], [100, 100])
    assert torch.bincount(index)[:10].tolist() == [10] * 10
    (offset,) = prior_offset(counts, draws, BINARY)
    assert offset == pytest.approx(np.log(0.1))
    y[1:10] = 0
    assert balanced_index(y, torch.arange(110), 0)[1] == [109, 10]  # at most ten times
    data = prepare_targets(splits_of(y, BINARY), spec(balance=True))
    assert (data.class_counts, data.class_draws, len(data.splits["train"])) == ([109, 1], [109, 10], 119)
    assert data.splits["val"].tolist() == [109]
    with pytest.raises(NoTarget, match="class number 1"):
        prepare_targets(splits_of(y, BINARY, torch.arange(10, 110)), spec(balance=True))


def test_classes_stay_as_they_are_unless_the_spec_asks():
    y = torch.tensor([0, 0, 0, 2, 1, 1])
    splits = splits_of(y, Task("multiclass", 4, "accuracy"))
    data = prepare_targets(splits, RunSpec.make("motif", "erm"))
    assert data.class_counts == data.class_draws == [3, 2, 1, 0]
    assert data.splits is splits
    with pytest.raises(NoTarget, match="class number 3"):  # of a user's own data, whether balanced or not
        prepare_targets(splits, spec(balance=False))
    named = replace(splits, source={"classes": ["low", "medium", "high", "very high"]})
    with pytest.raises(NoTarget, match="no training row is of class 'very high': hold out fewer rows"):
        prepare_targets(named, spec(balance=False))


def test_several_targets_are_not_balanced():
    y = torch.tensor([[0.0, 1.0], [1.0, NAN], [0.0, 0.0]])
    data = prepare_targets(splits_of(y, Task("binary", 2, "rocauc")), spec(balance=True))
    assert (data.class_counts, data.class_draws) == ([], [])
    assert data.splits["train"].tolist() == [0, 1, 2]


def test_unknown_labels_are_not_counted():
    assert class_counts(splits_of(torch.tensor([[0.0], [NAN], [1.0], [1.0]]), BINARY)) == [1, 2]
    assert class_counts(splits_of(torch.ones(3, 1), Task("regression", 1, "rmse"))) == []


def test_each_number_to_predict_is_standardized_over_training():
    y = torch.tensor([[1.0, 100.0], [3.0, NAN], [5.0, 300.0], [90.0, 900.0]])
    splits = splits_of(y, Task("regression", 2, "rmse"), torch.arange(3))
    prepared = standardize(splits)
    task = prepared.schema.task
    assert task.mean == pytest.approx((3.0, 200.0))
    assert task.std == pytest.approx((math.sqrt(8 / 3), 100.0))
    train = prepared.graphs.y[:3]
    assert train.nanmean(0).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert train[:, 1].tolist()[::2] == [-1.0, 1.0]
    assert math.isnan(train[1, 1])
    assert torch.allclose(task.in_label_units(prepared.graphs.y), y, equal_nan=True)
    assert splits.graphs.y is y  # the labels given stay as they are


@pytest.mark.parametrize("y", [[[2.0]] * 4, [[NAN], [NAN], [1.0], [2.0]]])
def test_numbers_from_which_nothing_can_be_learned_are_refused(y):
    splits = splits_of(torch.tensor(y), Task("regression", 1, "rmse"), torch.arange(2))
    with pytest.raises(NoTarget, match="the numbers to predict are all the same, or not finite"):
        prepare_targets(replace(splits), spec(balance=False))


def test_rows_without_a_label_are_not_drawn():
    y = torch.tensor([[0.0], [NAN], [1.0], [0.0], [0.0]])
    index, draws = balanced_index(y, torch.tensor([5, 6, 7, 8, 9]), 0)
    assert sorted(index.tolist()) == [5, 7, 7, 7, 8, 9]
    assert draws == [3, 3]
