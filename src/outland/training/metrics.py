"""Scores of predictions: accuracy, ROC-AUC, average precision and RMSE, to the bit as torchmetrics computes them."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from outland.errors import OutlandError
from outland.graphs import Task

Scores = dict[str, float | None]


def score(logits: Tensor, y: Tensor, task: Task) -> Scores:
    """The metrics of the task; its own `metric` is among them.

    One of several classes is scored by accuracy; by ranking, which takes longer, only where the task asks.

    Binary tasks are scored one by one over their known labels and averaged; a task with one class only is left out,
    and where none is left the score is None.
    """
    if logits.shape[0] != y.shape[0] or logits.shape[-1] != task.outputs:
        raise OutlandError(
            f"cannot score logits of shape {list(logits.shape)} against labels of shape {list(y.shape)} "
            f"for a task with {task.outputs} outputs"
        )
    match task.kind:
        case "multiclass":
            return _multiclass(logits, y.reshape(-1), task)
        case "binary":
            return _binary(logits, y.reshape_as(logits))
        case _:
            return {"rmse": _rmse(task.in_label_units(logits), task.in_label_units(y.reshape_as(logits)))}


def _multiclass(logits: Tensor, y: Tensor, task: Task) -> Scores:
    scores: Scores = {"accuracy": float((logits.argmax(1) == y).sum() / len(y))}
    if task.metric != "accuracy":
        has_all_classes = len(y.unique()) == task.outputs
        curves = [_counts(column, y == label) for label, column in enumerate(logits.softmax(1).T)]
        scores["rocauc"] = _mean([_roc_auc(*counts) for counts in curves]) if has_all_classes else None
        scores["ap"] = _mean([_average_precision(*counts) for counts in curves]) if has_all_classes else None
    return scores


def _binary(logits: Tensor, y: Tensor) -> Scores:
    scores: dict[str, list[Tensor]] = {"rocauc": [], "ap": [], "accuracy": []}
    for column, labels in zip(logits.T, y.T, strict=True):
        known = ~labels.isnan()
        column, positive = column[known], labels[known] == 1
        if len(positive.unique()) < 2:
            continue
        counts = _counts(column, positive)
        scores["rocauc"].append(_roc_auc(*counts))
        scores["ap"].append(_average_precision(*counts))
        scores["accuracy"].append(((column > 0) == positive).sum() / len(positive))
    return {name: _mean(values) if values else None for name, values in scores.items()}


def _counts(scores: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """False and true positives at each distinct score as threshold, highest first."""
    order = scores.argsort(descending=True)
    scores, positive = scores[order], positive[order]
    last = pad((scores[1:] != scores[:-1]).nonzero().flatten(), (0, 1), value=len(scores) - 1)  # of equal scores
    true_positives = positive.cumsum(0)[last]
    return 1 + last - true_positives, true_positives


def _roc_auc(false_positives: Tensor, true_positives: Tensor) -> Tensor:
    """Area under the ROC curve, by the trapezoidal rule, so that ties count half."""
    rates = (pad(counts, (1, 0)) / counts[-1] for counts in (false_positives, true_positives))
    false_positive_rate, true_positive_rate = rates
    return torch.trapezoid(true_positive_rate, false_positive_rate)


def _average_precision(false_positives: Tensor, true_positives: Tensor) -> Tensor:
    """Mean precision over the thresholds, each weighted by the recall that it adds."""
    precision = (true_positives / (true_positives + false_positives)).flip(0)
    recall = pad((true_positives / true_positives[-1]).flip(0), (0, 1))
    return -torch.sum((recall[1:] - recall[:-1]) * precision)


def _mean(values: list[Tensor]) -> float:
    return float(torch.stack(values).mean())


def _rmse(predictions: Tensor, y: Tensor) -> float | None:
    known = ~y.isnan()
    if not bool(known.any()):
        return None
    difference = predictions[known] - y[known]
    return float((torch.sum(difference * difference) / len(difference)).sqrt())
