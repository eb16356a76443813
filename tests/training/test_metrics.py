import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Task
from outland.training.metrics import score

NAN = float("nan")


def test_accuracy():
    logits = torch.tensor([[2.0, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 1]])
    scores = score(logits, torch.tensor([0, 1, 1, 2]), Task("multiclass", 3, "accuracy"))
    assert scores == {"accuracy": 0.5}


def test_ranks_of_several_classes_where_the_task_asks():
    logits, task = torch.tensor([[2.0, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 1]]), Task("multiclass", 3, "rocauc")
    scores = score(logits, torch.tensor([0, 1, 1, 2]), task)
    # the graph of class 0 lies above two of three, those of class 1 above both others, that of class 2 above one
    assert scores["rocauc"] == pytest.approx((2 / 3 + 1.0 + 1 / 3) / 3, abs=1e-6)
    assert score(logits, torch.tensor([0, 1, 1, 1]), task)["rocauc"] is None


def test_binary_scores_by_hand():
    """Ranked 0.1 < 0.35 < 0.4 < 0.8 with positives 0.35 and 0.8: 3 of 4 pairs in order; precisions 1 and 2/3."""
    logits = torch.tensor([[0.1], [0.4], [0.35], [0.8]])
    scores = score(logits, torch.tensor([[0.0], [0], [1], [1]]), Task("binary", 1, "rocauc"))
    assert scores["rocauc"] == pytest.approx(0.75)
    assert scores["ap"] == pytest.approx((1 + 2 / 3) / 2, abs=1e-6)
    assert scores["accuracy"] == 0.5


def test_certain_logits_keep_their_order_and_ties_count_half():
    task = Task("binary", 1, "rocauc")
    assert score(torch.tensor([[90.0], [91.0]]), torch.tensor([[0.0], [1.0]]), task)["rocauc"] == 1
    assert score(torch.tensor([[5.0], [5.0]]), torch.tensor([[0.0], [1.0]]), task)["rocauc"] == 0.5


def test_tasks_are_averaged_over_known_labels_and_one_class_tasks_left_out():
    logits = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [2.0, 5.0, 2.0]])
    y = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [NAN, NAN, NAN]])
    assert score(logits, y, Task("binary", 3, "rocauc"))["rocauc"] == 0.5
    assert score(logits[:, 2:], y[:, 2:], Task("binary", 1, "rocauc"))["rocauc"] is None


def test_rmse_skips_unknown_values():
    scores = score(
        torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([[2.0], [NAN], [5.0]]), Task("regression", 1, "rmse")
    )
    assert scores["rmse"] == pytest.approx(2.5**0.5)
    assert score(torch.ones(1, 1), torch.tensor([[NAN]]), Task("regression", 1, "rmse"))["rmse"] is None


def test_wrong_shapes_get_a_sentence():
    with pytest.raises(OutlandError, match=r"logits of shape \[2, 4\]"):
        score(torch.ones(2, 4), torch.ones(2), Task("multiclass", 3, "accuracy"))
