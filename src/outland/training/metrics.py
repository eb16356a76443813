"""Scores of predictions, by torchmetrics."""

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import Task

Scores = dict[str, float | None]


def score(logits: Tensor, y: Tensor, task: Task) -> Scores:
    """The metrics of the task; its own `metric` is among them.

    One of several classes is scored by accuracy; by ranks, which take thirty times as long, only where the task asks.

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
            return _multiclass(logits, y, task)
        case "binary":
            return _binary(logits, y.reshape_as(logits))
        case _:
            return {"rmse": _rmse(logits, y.reshape_as(logits))}


def _multiclass(logits: Tensor, y: Tensor, task: Task) -> Scores:
    from torchmetrics.functional.classification import (
        multiclass_accuracy,
        multiclass_auroc,
        multiclass_average_precision,
    )

    classes = task.outputs
    scores: Scores = {"accuracy": float(multiclass_accuracy(logits, y, classes, average="micro"))}
    if task.metric != "accuracy":
        whole, probabilities = len(y.unique()) == classes, logits.softmax(1)
        scores["rocauc"] = float(multiclass_auroc(probabilities, y, classes)) if whole else None
        scores["ap"] = float(multiclass_average_precision(probabilities, y, classes)) if whole else None
    return scores


def _binary(logits: Tensor, y: Tensor) -> Scores:
    from torchmetrics.functional.classification import binary_accuracy, binary_auroc, binary_average_precision

    found: dict[str, list[Tensor]] = {"rocauc": [], "ap": [], "accuracy": []}
    for column, labels in zip(logits.T, y.T, strict=True):
        known = ~labels.isnan()
        column, labels = column[known], labels[known].long()
        if len(labels.unique()) < 2:
            continue
        # Ranks in [0, 1] instead of probabilities: a sigmoid would round the most certain ones together.
        rank = column.unique(return_inverse=True)[1].double()
        rank = rank / rank.max().clamp(min=1)
        found["rocauc"].append(binary_auroc(rank, labels))
        found["ap"].append(binary_average_precision(rank, labels))
        found["accuracy"].append(binary_accuracy((column > 0).long(), labels))
    return {name: float(torch.stack(values).mean()) if values else None for name, values in found.items()}


def _rmse(predictions: Tensor, y: Tensor) -> float | None:
    from torchmetrics.functional.regression import mean_squared_error

    known = ~y.isnan()
    if not bool(known.any()):
        return None
    return float(torch.sqrt(mean_squared_error(predictions[known], y[known])))
