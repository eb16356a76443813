"""Logits into probabilities, with a temperature fitted on validation rows."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn import functional

from outland.graphs import Task

_BOUND = 3.0  # of log T, from 1/20 to 20


@dataclass(frozen=True)
class Calibration:
    r"""Probabilities as :math:`\sigma(z / T + b)`, or softmax of the same.

    Rare classes are drawn more often in training, which moves logits by a known amount; b takes it back, so that
    probabilities are those of the training table as it was. T is fitted on validation rows (Guo et al., ICML 2017).

    Args:
        temperature: T of each output of a binary task; one T for the classes of a multiclass task.
        offset: b of each output.
    """

    temperature: tuple[float, ...]
    offset: tuple[float, ...]

    @classmethod
    def identity(cls, task: Task) -> "Calibration":
        """T = 1 and b = 0: probabilities as the network has them."""
        return cls((1.0,) * (1 if task.kind == "multiclass" else task.outputs), (0.0,) * task.outputs)

    def logits(self, z: Tensor) -> Tensor:
        """Calibrated logits `[G, outputs]`."""
        return z / z.new_tensor(self.temperature) + z.new_tensor(self.offset)

    def probabilities(self, z: Tensor, task: Task) -> Tensor:
        """Of the second class of each target `[G, outputs]` in a binary task; of every class `[G, classes]` else."""
        logits = self.logits(z)
        return logits.sigmoid() if task.kind == "binary" else logits.softmax(1)


def prior_offset(counts: list[int], draws: list[int], task: Task) -> tuple[float, ...]:
    """The offset b that undoes drawing classes `draws` times instead of `counts` times; 0 where these are the same."""
    if counts == draws:
        return (0.0,) * task.outputs
    log_odds = np.log(np.array(counts) / sum(counts)) - np.log(np.array(draws) / sum(draws))
    return (float(log_odds[1] - log_odds[0]),) if task.kind == "binary" else tuple(float(value) for value in log_odds)


def calibrate(z: Tensor, y: Tensor, offset: tuple[float, ...], task: Task) -> Calibration:
    """The temperatures with the least log-loss on rows with logits z and labels y; 1 where there is one class only."""
    if task.kind == "regression":
        return Calibration.identity(task)
    z = z.double()
    if task.kind == "multiclass":
        return Calibration((_temperature(z, y.flatten(), z.new_tensor(offset)),), offset)
    columns = zip(z.T, y.reshape_as(z).T, offset, strict=True)
    return Calibration(tuple(_temperature(logits, labels, shift) for logits, labels, shift in columns), offset)


def _temperature(z: Tensor, y: Tensor, offset: Tensor | float) -> float:
    from scipy.optimize import minimize_scalar

    known = ~y.isnan() if y.is_floating_point() else slice(None)
    z, y = z[known], y[known]
    if len(y.unique()) < 2:
        return 1.0

    def loss(log_temperature: float) -> float:
        logits = z / float(np.exp(log_temperature)) + offset
        if z.dim() == 1:
            return float(functional.binary_cross_entropy_with_logits(logits, y.double()))
        return float(functional.cross_entropy(logits, y.long()))

    return float(np.exp(minimize_scalar(loss, bounds=(-_BOUND, _BOUND), method="bounded").x))
