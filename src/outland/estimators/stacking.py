"""Weights of contenders in a stacked mean, by their out-of-fold outputs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from outland.graphs import Task

_LEAST_WEIGHT = 0.02  # below which a contender is left out of the mean
_PRIOR = 1.0  # precision of the normal prior on coefficients (around equal ones) and bias: few rows move them little
_MOST = 10.0  # of a coefficient


class Combination(NamedTuple):
    """a and b of the combined output a·z + b: coefficients `[contenders]` and bias `[outputs]`."""

    coefficients: Tensor
    bias: Tensor

    @property
    def weights(self) -> Tensor:
        """The coefficients with sum 1."""
        return self.coefficients / self.coefficients.sum()

    def outputs(self, stacked: Tensor) -> Tensor:
        """Combined outputs `[n, outputs]` of `[contenders, n, outputs]`."""
        return torch.einsum("c,cno->no", self.coefficients, stacked) + self.bias


def prediction_loss(outputs: Tensor, y: Tensor, task: Task) -> Tensor:
    """Loss of each row `[n]`, the mean over its known targets, NaN where none is: log-loss, or squared error.

    Args:
        outputs: `[n, outputs]`: logits, log-probabilities of classes, or numbers.
        y: labels `[n]` or `[n, T]`, NaN where unknown; numbers in the units of the outputs.
        task: which of these.
    """
    outputs = outputs.double()
    if task.kind == "multiclass":
        return functional.cross_entropy(outputs, y.flatten().long(), reduction="none")
    y = y.reshape_as(outputs).double()
    known = ~y.isnan()
    target = torch.where(known, y, 0.0)
    if task.kind == "binary":
        losses = functional.binary_cross_entropy_with_logits(outputs, target, reduction="none")
    else:
        losses = (outputs - target).square()
    return torch.where(known, losses, 0.0).sum(1) / known.sum(1)


def mean_loss(outputs: Tensor, y: Tensor, task: Task) -> float:
    """Mean loss of the rows that have a label."""
    return float(prediction_loss(outputs, y, task).nanmean())


def combine(stacked: Tensor, y: Tensor, task: Task) -> Combination:
    """The combination with the least loss.

    For classes coefficients, which are not negative, and bias are fitted, so that contenders are compared at their best
    temperature and none is preferred for its scale; one with less than a fiftieth of the weight is left out. Of numbers
    it is the plain mean of the best few: a few large errors would decide fitted weights.

    Args:
        stacked: outputs `[contenders, n, outputs]`.
        y, task: as in `prediction_loss`.
    """
    stacked = stacked.double()
    if task.kind == "regression":
        return _mean_of_best(stacked, y, task)
    first = _fitted(stacked, y, task)
    kept = first.weights >= _LEAST_WEIGHT
    if bool(kept.all()):
        return first
    second = _fitted(stacked[kept], y, task)
    return Combination(torch.zeros(len(stacked), dtype=torch.double).masked_scatter(kept, second[0]), second.bias)


def _mean_of_best(stacked: Tensor, y: Tensor, task: Task) -> Combination:
    """The mean of the k contenders with the least loss, for the k that is best; of two at least, where there are."""
    order = sorted(range(len(stacked)), key=lambda contender: mean_loss(stacked[contender], y, task))
    counts = range(min(2, len(order)), len(order) + 1)
    best = min(counts, key=lambda count: mean_loss(stacked[order[:count]].mean(0), y, task))
    coefficients = torch.zeros(len(stacked), dtype=torch.double)
    coefficients[order[:best]] = 1 / best
    return Combination(coefficients, torch.zeros(stacked.shape[2], dtype=torch.double))


def _fitted(stacked: Tensor, y: Tensor, task: Task) -> Combination:
    from scipy.optimize import minimize

    count = len(stacked)

    def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = torch.from_numpy(values.copy()).requires_grad_()
        candidate = Combination(parameters[:count], parameters[count:])
        loss = prediction_loss(candidate.outputs(stacked), y, task).nanmean()
        moved = (candidate.coefficients - 1 / count).square().sum() + candidate.bias.square().sum()
        loss = loss + _PRIOR / (2 * stacked.shape[1]) * moved
        loss.backward()
        assert parameters.grad is not None
        return float(loss.detach()), parameters.grad.numpy()

    start = np.concatenate([np.full(count, 1 / count), np.zeros(stacked.shape[2])])
    bounds = [(0.0, _MOST)] * count + [(None, None)] * stacked.shape[2]
    values = torch.from_numpy(minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
    best = Combination(values[:count], values[count:])
    if float(best.coefficients.sum()) < 1e-6:  # no contender is better than a constant
        return Combination(torch.full((count,), 1 / count, dtype=torch.double), best.bias)
    return best


def cross_fitted(outputs: Sequence[Tensor], y: Tensor, fold_of: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Combined outputs of each row by what was fitted on the other folds, and the weighted mean alone `[n, outputs]`.

    With one contender that is its output at the temperature and bias of the other folds. Where there is one fold only
    contenders count alike. Of numbers it is the mean of the best few on all folds: nothing is fitted, and it is chosen
    among as few as contenders are.
    """
    stacked = torch.stack([each.double() for each in outputs])
    if task.kind == "regression":
        combined = combine(stacked, y, task).outputs(stacked)
        return combined, combined
    combined, mean = torch.zeros_like(stacked[0]), torch.zeros_like(stacked[0])
    equal = torch.full((len(stacked),), 1 / len(stacked), dtype=torch.double)
    for fold in fold_of.unique():
        rows = fold_of == fold
        fitted = Combination(equal, torch.zeros(stacked.shape[2], dtype=torch.double))
        if not rows.all():
            fitted = combine(stacked[:, ~rows], y[~rows], task)
        combined[rows] = fitted.outputs(stacked[:, rows])
        mean[rows] = torch.einsum("c,cno->no", fitted.weights, stacked[:, rows])
    return combined, mean
