import math
import random

import pytest
import torch
from sklearn.metrics import average_precision_score
from torchmetrics.functional import classification
from torchmetrics.functional.regression import mean_squared_error

from outland.errors import OutlandError
from outland.graphs import Task
from outland.training.metrics import Scorer, score

NAN = float("nan")
TASKS = [
    *(Task(kind, 3, metric) for kind in ("multiclass", "binary") for metric in ("accuracy", "rocauc", "ap")),
    Task("regression", 3, "rmse"),
]


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


@pytest.mark.parametrize(("metric", "value"), [("rocauc", 0.75), ("ap", (1 + 2 / 3) / 2), ("accuracy", 0.75)])
def test_binary_scores_by_hand(metric, value):
    """Ranked -0.3 < 0.35 < 0.4 < 0.8 with positives 0.35 and 0.8: 3 of 4 pairs in order; precisions 1 and 2/3."""
    logits = torch.tensor([[-0.3], [0.4], [0.35], [0.8]])
    found = score(logits, torch.tensor([[0.0], [0], [1], [1]]), Task("binary", 1, metric))
    assert found == {metric: value}


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


def test_logits_that_are_not_numbers_have_no_score():
    """They lie behind all others in a search, and the first class has the largest."""
    logits = torch.full((4, 1), NAN)
    labels = torch.tensor([[0.0], [1], [1], [0]])
    assert score(logits, labels, Task("binary", 1, "rocauc")) == {"rocauc": None}
    assert score(logits, labels, Task("binary", 1, "ap")) == {"ap": None}
    logits = torch.tensor([[0.0, 1.0], [NAN, 0.0]])
    assert score(logits, torch.tensor([1, 0]), Task("multiclass", 2, "accuracy")) == {"accuracy": None}


def test_wrong_shapes_get_a_sentence():
    with pytest.raises(OutlandError, match=r"logits of shape \[2, 4\]"):
        score(torch.ones(2, 4), torch.ones(2), Task("multiclass", 3, "accuracy"))


def test_rmse_is_in_the_units_of_the_labels():
    """Standardized predictions are off by 1 and 2 times 10 in one column, by 3 times 0.5 in the other."""
    task = Task("regression", 2, "rmse", mean=(100.0, 7.0), std=(10.0, 0.5))
    y = torch.tensor([[0.0, 0.0], [1.0, NAN]])
    logits = torch.tensor([[1.0, 3.0], [3.0, 8.0]])
    assert score(logits, y, task)["rmse"] == pytest.approx(math.sqrt((10**2 + 20**2 + 1.5**2) / 3), rel=1e-12)


@pytest.mark.parametrize("rows", [2, 7, 60])
def test_auc_is_the_share_of_pairs_in_order(rows):
    """One by one, exactly: of 2 points a pair, two where it is in order and one where it is tied."""
    chance = random.Random(rows)
    for _ in range(30):
        values = [chance.randrange(8) for _ in range(rows)]
        marks = [True, False, *(chance.random() < 0.3 for _ in range(rows - 2))]
        positive, negative = (
            [v for v, mark in zip(values, marks, strict=True) if mark is side] for side in (True, False)
        )
        points = sum((p > n) + (p >= n) for p in positive for n in negative)
        labels = torch.tensor(marks).float()[:, None]
        found = score(torch.tensor(values).float()[:, None], labels, Task("binary", 1, "rocauc"))
        assert found == {"rocauc": points / (2 * len(positive) * len(negative))}


def test_certain_classes_are_ranked_by_their_probabilities():
    """Graphs 40 and 50 above are both certain of class 0, and tie there, 0.75; of class 1 they are in order, 0.5."""
    logits = torch.tensor([[40.0, 0.0], [50.0, 0.0], [0.0, 1.0]])
    assert score(logits, torch.tensor([0, 1, 1]), Task("multiclass", 2, "rocauc"))["rocauc"] == 0.625


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.kind}-{task.metric}")
def test_a_scorer_is_called_again_and_again(task):
    """A replay does the same: the labels are looked at once, and what is scored stays as it is."""
    chance = torch.Generator().manual_seed(1)
    y = torch.randint(0, 3, (50,), generator=chance)
    if task.kind != "multiclass":
        y = torch.randint(0, 2, (50, 3), generator=chance).float()
        y[torch.rand(50, 3, generator=chance) < 0.2] = NAN
    scorer, logits = Scorer(y, task), torch.zeros(50, 3)
    for _ in range(4):
        logits.copy_(torch.randn(50, 3, generator=chance))
        before = logits.clone()
        found = scorer(logits)
        assert (found.dtype, found.shape) == (torch.double, ())
        assert found.item() == scorer(logits).item() == score(logits, y, task)[task.metric]
        assert torch.equal(logits, before)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.kind}-{task.metric}")
def test_no_rows_have_no_score(task):
    y = torch.zeros(0, dtype=torch.long) if task.kind == "multiclass" else torch.zeros(0, 3)
    assert score(torch.zeros(0, 3), y, task) == {task.metric: None}


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("grid", [0.0, 0.5])
def test_scores_are_those_of_torchmetrics_and_scikit_learn(scale, grid):
    """With and without ties; a sigmoid rounds the most certain logits together, so torchmetrics is given ranks."""
    chance = torch.Generator().manual_seed(0)
    for rows in (3, 40, 1000):
        logits = scale * torch.randn(rows, 3, generator=chance)
        logits = (logits / grid).round() * grid if grid else logits
        classes = torch.cat([torch.arange(3), torch.randint(0, 3, (rows - 3,), generator=chance)])
        labels, chances = torch.nn.functional.one_hot(classes, 3), logits.softmax(1)
        ranks = torch.stack([column.unique(return_inverse=True)[1] / rows for column in logits.T], 1)
        values = torch.randn(rows, 3, generator=chance)
        expected = {
            ("multiclass", "accuracy"): classification.multiclass_accuracy(logits, classes, 3, average="micro"),
            ("multiclass", "rocauc"): classification.multiclass_auroc(chances, classes, 3),
            ("multiclass", "ap"): average_precision_score(labels, chances),
            ("binary", "rocauc"): classification.multilabel_auroc(ranks, labels, 3),
            ("binary", "ap"): average_precision_score(labels, logits),
            ("binary", "accuracy"): classification.multilabel_accuracy(logits, labels, 3),
            ("regression", "rmse"): mean_squared_error(logits.flatten(), values.flatten()).sqrt(),
        }
        for (kind, metric), value in expected.items():
            y = {"multiclass": classes, "binary": labels.float(), "regression": values}[kind]
            found = score(logits, y, Task(kind, 3, metric))
            assert found == {metric: pytest.approx(float(value), rel=1e-6, abs=1e-6)}, (kind, rows)
