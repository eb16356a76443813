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
    """The combination with the least loss: non-negative coefficients, and their sum 1 where numbers are predicted.

    For classes coefficients and bias are free, so that contenders are compared at their best temperature and none is
    preferred for its scale. Contenders with less than a fiftieth of the weight are left out.

    Args:
        stacked: outputs `[contenders, n, outputs]`.
        y, task: as in `prediction_loss`.
    """
    stacked = stacked.double()
    first = _fitted(stacked, y, task)
    kept = first.weights >= _LEAST_WEIGHT
    if bool(kept.all()):
        return first
    second = _fitted(stacked[kept], y, task)
    return Combination(torch.zeros(len(stacked), dtype=torch.double).masked_scatter(kept, second[0]), second.bias)


def _fitted(stacked: Tensor, y: Tensor, task: Task) -> Combination:
    from scipy.optimize import minimize

    count, is_numeric = len(stacked), task.kind == "regression"
    zero = torch.zeros(stacked.shape[2], dtype=torch.double)
    if is_numeric and count == 1:
        return Combination(torch.ones(1, dtype=torch.double), zero)

    def combination(parameters: Tensor) -> Combination:
        if is_numeric:
            return Combination(parameters / parameters.sum().clamp(min=1e-9), zero)
        return Combination(parameters[:count], parameters[count:])

    def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = torch.from_numpy(values.copy()).requires_grad_()
        candidate = combination(parameters)
        loss = prediction_loss(candidate.outputs(stacked), y, task).nanmean()
        moved = (candidate.coefficients - 1 / count).square().sum() + candidate.bias.square().sum()
        loss = loss + _PRIOR / (2 * stacked.shape[1]) * moved
        loss.backward()
        assert parameters.grad is not None
        return float(loss.detach()), parameters.grad.numpy()

    start = np.concatenate([np.full(count, 1 / count), np.zeros(0 if is_numeric else len(zero))])
    bounds = [(0.0, _MOST)] * count + [(None, None)] * (len(start) - count)
    found = combination(torch.from_numpy(minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x))
    if float(found.coefficients.sum()) < 1e-6:  # no contender is better than a constant
        return Combination(torch.full((count,), 1 / count, dtype=torch.double), found.bias)
    return found


def cross_fitted(outputs: Sequence[Tensor], y: Tensor, fold_of: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Combined outputs of each row by what was fitted on the other folds, and the weighted mean alone `[n, outputs]`.

    With one contender that is its output at the temperature and bias of the other folds. Where there is one fold only
    contenders count alike.
    """
    stacked = torch.stack([each.double() for each in outputs])
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
