import pytest
import torch
from torchmetrics.functional import classification
from torchmetrics.functional.regression import mean_squared_error

from outland.errors import OutlandError
from outland.graphs import Task
from outland.training.metrics import score

NAN = float("nan")


def test_accuracy():
    logits = torch.tensor([[2.0, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 1]])
    scores = score(logits, torch.tensor([0, 1, 1, 2]), Task("multiclass", 3, "accuracy"))
    assert scores == {"accuracy": 0.5}


def test_several_classes_are_ranked_where_the_task_asks():
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


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("grid", [0.0, 0.5])
def test_scores_are_torchmetrics_to_the_bit(scale, grid):
    """With and without ties; a sigmoid rounds the most certain logits together, so torchmetrics is given ranks."""
    random = torch.Generator().manual_seed(0)
    for rows in (3, 40, 1000):
        logits = scale * torch.randn(rows, 3, generator=random)
        logits = (logits / grid).round() * grid if grid else logits
        classes = torch.cat([torch.arange(3), torch.randint(0, 3, (rows - 3,), generator=random)])
        found = score(logits, classes, Task("multiclass", 3, "rocauc"))
        assert found == {
            "accuracy": float(classification.multiclass_accuracy(logits, classes, 3, average="micro")),
            "rocauc": float(classification.multiclass_auroc(logits.softmax(1), classes, 3)),
            "ap": float(classification.multiclass_average_precision(logits.softmax(1), classes, 3)),
        }
        ranks = torch.stack([column.unique(return_inverse=True)[1] / rows for column in logits.T], 1)
        labels = torch.nn.functional.one_hot(classes, 3)
        found = score(logits, labels.float(), Task("binary", 3, "rocauc"))
        assert found == {
            "rocauc": float(classification.multilabel_auroc(ranks, labels, 3)),
            "ap": float(classification.multilabel_average_precision(ranks, labels, 3)),
            "accuracy": float(classification.multilabel_accuracy(logits, labels, 3)),
        }
        values = torch.randn(rows, 3, generator=random)
        rmse = score(logits, values, Task("regression", 3, "rmse"))["rmse"]
        assert rmse == float(mean_squared_error(logits.flatten(), values.flatten()).sqrt())
