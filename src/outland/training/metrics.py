"""Scores of predictions, computed on the device that holds them: accuracy, ROC-AUC, average precision and RMSE.

Which rows are positive follows from the labels, which are known beforehand: scoring launches the same kernels every
time, waits for nothing, and can be captured. Counts are integers, so scores are exact up to the last division.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import Task

Scores = dict[str, float | None]
Ranking = Callable[[Tensor, Tensor], Tensor]  # scores of positives and of negatives -> scalar


def score(logits: Tensor, y: Tensor, task: Task) -> Scores:
    """The task's own metric, by name; None where it is undefined."""
    if logits.shape[0] != y.shape[0] or logits.shape[-1] != task.outputs:
        raise OutlandError(
            f"cannot score logits of shape {list(logits.shape)} against labels of shape {list(y.shape)} "
            f"for a task with {task.outputs} outputs"
        )
    return named(task, float(Scorer(y, task)(logits)))


def named(task: Task, value: float) -> Scores:
    """A score under the name of the task's metric; NaN becomes None."""
    return {task.metric: None if value != value else value}


class Scorer:
    """Scores the logits `[n, outputs]` of rows whose labels are `y`, by the task's metric; NaN where it is undefined.

    Binary tasks are scored one by one over their known labels and averaged; a task with one class only is left out.
    One of several classes is ranked against the others, and needs rows of every class.
    """

    def __init__(self, y: Tensor, task: Task) -> None:
        self.task, self.y, self.device = task, y, y.device
        self._score: Callable[[Tensor], Tensor]
        match task.kind:
            case "multiclass":
                self._score = self._accuracy if task.metric == "accuracy" else self._mean_over_classes
                self.y = y.reshape(-1)
                marks = [self.y == label for label in range(task.outputs)]
                self._pairs = [(column, *_split(mark, ~mark)) for column, mark in enumerate(marks)]
            case "binary":
                self._score = self._mean_over_tasks
                columns = y.reshape(len(y), task.outputs).T
                self._pairs = [(column, *_split(label == 1, label == 0)) for column, label in enumerate(columns)]
            case _:
                self._score = self._rmse
                self.y = y.reshape(len(y), task.outputs)
                self._known = (~self.y.isnan()).flatten().nonzero().flatten()
                self._std = self.y.new_tensor(task.std or 1.0)  # here, since a capture takes no tensor from the host
        self._metric: Ranking = average_precision if task.metric == "ap" else roc_auc

    def __call__(self, logits: Tensor) -> Tensor:
        """The score, 0-dim in double precision, on the device; NaN if any logit is."""
        return torch.where(logits.isnan().any(), torch.nan, self._score(logits))

    def _accuracy(self, logits: Tensor) -> Tensor:
        return (logits.argmax(1) == self.y).double().mean()

    def _mean_over_classes(self, logits: Tensor) -> Tensor:
        if any(not len(positive) for _, positive, _ in self._pairs):
            return self._undefined()
        return self._mean(logits.softmax(1), self._pairs)

    def _mean_over_tasks(self, logits: Tensor) -> Tensor:
        pairs = [pair for pair in self._pairs if len(pair[1]) and len(pair[2])]
        if self.task.metric == "accuracy" and pairs:
            return torch.stack([_agreement(logits[:, column], *rows) for column, *rows in pairs]).mean()
        return self._mean(logits, pairs) if pairs else self._undefined()

    def _mean(self, values: Tensor, pairs: list[tuple[int, Tensor, Tensor]]) -> Tensor:
        columns = [
            (values[:, column].index_select(0, p), values[:, column].index_select(0, n)) for column, p, n in pairs
        ]
        return torch.stack([self._metric(*column) for column in columns]).mean()

    def _rmse(self, predictions: Tensor) -> Tensor:
        if not len(self._known):
            return self._undefined()
        difference = (predictions.to(self.y.dtype) - self.y) * self._std
        return difference.flatten().index_select(0, self._known).double().square().mean().sqrt()

    def _undefined(self) -> Tensor:
        return torch.full((), torch.nan, dtype=torch.double, device=self.device)


def _split(positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    return positive.nonzero().flatten(), negative.nonzero().flatten()


def _agreement(logits: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Share of rows whose logit is on the side of their label."""
    right = (logits.index_select(0, positive) > 0).sum() + (logits.index_select(0, negative) <= 0).sum()
    return right.double() / (len(positive) + len(negative))


def roc_auc(positive: Tensor, negative: Tensor) -> Tensor:
    """Share of pairs of a positive and a negative that are in order; ties count half."""
    ordered = negative.sort().values
    below = torch.searchsorted(ordered, positive).sum() + torch.searchsorted(ordered, positive, right=True).sum()
    return below.double() / (2 * len(positive) * len(negative))


def average_precision(positive: Tensor, negative: Tensor) -> Tensor:
    """Mean over the positives of the precision among the rows that score as high, or higher."""
    above = [len(rows) - torch.searchsorted(rows.sort().values, positive) for rows in (positive, negative)]
    return (above[0].double() / (above[0] + above[1])).mean()
