"""Outputs into probabilities, with a temperature and a bias fitted on rows the model was not trained on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from outland.graphs import Task

FEWEST = 10  # rows of a class, below which nothing is fitted
_BOUND_T, _BOUND_B = 3.0, 4.0  # of |log T|, T from 1/20 to 20, and of |b|
_SCALE_T, _SCALE_B = 1.0, 1.5  # standard deviations of the prior on log T and b
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    r"""Probabilities as :math:`\sigma(z / T + b)`, or softmax of the same.

    T and b have the least log-loss on rows that the model was not trained on, under a mild normal prior on log T and b,
    so that few rows cannot move them far (Platt, 1999; Guo et al., ICML 2017).

    Args:
        temperature: T of each output of a binary task; one T for the classes of a multiclass task.
        offset: b of each output.
        reason: why nothing was fitted, for some target; empty where T and b are fitted.
    """

    temperature: tuple[float, ...]
    offset: tuple[float, ...]
    reason: str = ""

    @classmethod
    def identity(cls, task: Task, reason: str = "") -> "Calibration":
        """T = 1 and b = 0: probabilities as the outputs have them."""
        return cls((1.0,) * (1 if task.kind == "multiclass" else task.outputs), (0.0,) * task.outputs, reason)

    def logits(self, z: Tensor) -> Tensor:
        """Calibrated logits `[G, outputs]`."""
        return z / z.new_tensor(self.temperature) + z.new_tensor(self.offset)

    def probabilities(self, z: Tensor, task: Task) -> Tensor:
        """Of the second class of each target `[G, outputs]` in a binary task; of every class `[G, classes]` else."""
        logits = self.logits(z)
        return logits.sigmoid() if task.kind == "binary" else logits.softmax(1)


def prior_offset(counts: list[int], draws: Sequence[float], task: Task) -> tuple[float, ...]:
    """The offset that undoes drawing classes `draws` times instead of `counts` times; 0 where these are the same."""
    if counts == draws:
        return (0.0,) * task.outputs
    log_odds = np.log(np.array(counts) / sum(counts)) - np.log(np.array(draws) / sum(draws))
    return (float(log_odds[1] - log_odds[0]),) if task.kind == "binary" else tuple(float(value) for value in log_odds)


def calibrate(z: Tensor, y: Tensor, task: Task, bias: bool = True) -> Calibration:
    """Temperatures and biases from outputs `z` `[G, outputs]` of rows not trained on, and their labels.

    A target with fewer than ten rows of one of two classes keeps T = 1 and b = 0, and `reason` says so. Of several
    classes two need ten rows; those that have fewer keep b = 0, and their rows count for nothing. Without `bias` b is
    0, and the most probable class stays what it was.
    """
    if task.kind == "regression":
        return Calibration.identity(task)
    z = z.double()
    if task.kind == "multiclass":
        return _calibrate_classes(z, y.flatten().long(), task, bias)
    fitted, reasons = [], []
    for logits, labels in zip(z.T, y.reshape_as(z).T, strict=True):
        known = ~labels.isnan()
        few = int(torch.bincount(labels[known].long(), minlength=2).min())
        reasons += [_reason(few)] if few < FEWEST else []
        fitted.append(
            (1.0, [0.0]) if few < FEWEST else _fit(logits[known, None], labels[known].double()[:, None], bias)
        )
    temperatures, offsets = zip(*fitted, strict=True)
    return Calibration(tuple(temperatures), tuple(offset[0] for offset in offsets), next(iter(reasons), ""))


def _calibrate_classes(z: Tensor, y: Tensor, task: Task, bias: bool) -> Calibration:
    enough = torch.bincount(y, minlength=task.outputs) >= FEWEST
    count = int(enough.sum())
    if count < 2:
        having = f"{count or 'none'} of {task.outputs} classes has the {FEWEST} rows that are needed to fit them on"
        return Calibration.identity(task, having)
    rows = enough[y]
    temperature, fitted = _fit(z[rows][:, enough], (enough.cumsum(0) - 1)[y[rows]], bias)
    offset = torch.zeros(task.outputs, dtype=torch.double)
    offset[enough] = torch.tensor(fitted, dtype=torch.double)
    return Calibration((temperature,), tuple(offset.tolist()))


def _reason(rows: int) -> str:
    return f"a class has {rows} row{'s' * (rows != 1)} to fit them on, and {FEWEST} are needed"


def _fit(z: Tensor, y: Tensor, bias: bool) -> tuple[float, list[float]]:
    """T and b of the least penalised log-loss; `y` is `[G]` classes, or `[G, 1]` of 0 and 1."""
    from scipy.optimize import minimize

    def loss(values: Array) -> tuple[float, Array]:
        parameters = torch.tensor(values, requires_grad=True)
        log_t, b = parameters[0], parameters[1:]
        logits = z * torch.exp(-log_t) + b
        if y.dim() == 1:
            risk = functional.cross_entropy(logits, y, reduction="sum")
        else:
            risk = functional.binary_cross_entropy_with_logits(logits, y, reduction="sum")
        total = risk + (log_t / _SCALE_T).square() / 2 + (b / _SCALE_B).square().sum() / 2
        (gradient,) = torch.autograd.grad(total, parameters)
        return float(total.detach()), gradient.numpy()

    bounds = [(-_BOUND_T, _BOUND_T)] + [(-_BOUND_B, _BOUND_B) if bias else (0.0, 0.0)] * z.shape[1]
    best = minimize(loss, np.zeros(1 + z.shape[1]), jac=True, bounds=bounds, method="L-BFGS-B").x
    return float(np.exp(best[0])), best[1:].tolist()


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows whose probability lies between two limits: their mean probability, observed rate, and number."""

    mean_probability: float
    observed_rate: float
    rows: int


def reliability_bins(probability: Array, happened: Array, bins: int = 10) -> list[ReliabilityBin]:
    """Bins of equal width, empty ones left out: probabilities of events `[n]` beside whether they happened `[n]`."""
    index = np.minimum((probability * bins).astype(int), bins - 1)
    return [
        ReliabilityBin(
            float(probability[index == b].mean()), float(happened[index == b].mean()), int((index == b).sum())
        )
        for b in np.unique(index)
    ]


def expected_calibration_error(probability: Array, happened: Array, bins: int = 10) -> float:
    """Mean of |mean probability − observed rate| over bins, weighted by rows."""
    gaps = [
        (one.rows, abs(one.mean_probability - one.observed_rate))
        for one in reliability_bins(probability, happened, bins)
    ]
    return sum(rows * gap for rows, gap in gaps) / max(1, len(probability))
