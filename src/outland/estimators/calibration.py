"""Logits into probabilities, scaled on validation rows."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional

from outland.graphs import Task

_FARTHEST = 3.0  # of log T, from 1/20 to 20


@dataclass(frozen=True)
class Calibration:
    r"""Probabilities as :math:`\sigma(z / T + b)`, or softmax of the same.

    Rare classes are drawn more often in training, which moves logits by a known amount; b takes it back, so that
    probabilities speak of the training table as it was. T is found on validation rows (Guo et al., ICML 2017).

    Args:
        temperature: T.
        offset: b for each output.
    """

    temperature: float
    offset: tuple[float, ...]

    def logits(self, z: Tensor) -> Tensor:
        """Scaled logits `[G, outputs]`."""
        return z / self.temperature + z.new_tensor(self.offset)

    def probabilities(self, z: Tensor, task: Task) -> Tensor:
        """Of every class `[G, classes]`."""
        logits = self.logits(z)
        if task.kind == "binary":
            yes = logits.sigmoid()
            return torch.cat([1 - yes, yes], 1)
        return logits.softmax(1)


def prior_offset(counts: list[int], drawn: list[int], task: Task) -> tuple[float, ...]:
    """What drawing classes `drawn` times instead of `counts` times added to the logits, with its sign turned."""
    shift = np.log(np.array(counts) / sum(counts)) - np.log(np.array(drawn) / sum(drawn))
    return (float(shift[1] - shift[0]),) if task.kind == "binary" else tuple(float(one) for one in shift)


def calibrate(z: Tensor, y: Tensor, offset: tuple[float, ...], task: Task) -> Calibration:
    """The temperature with the least log-loss on these rows; 1 where they have one class only."""
    z, y = z.double(), y.flatten()
    if len(y.unique()) < 2:
        return Calibration(1.0, offset)

    def loss(log_temperature: float) -> float:
        logits = Calibration(float(np.exp(log_temperature)), offset).logits(z)
        if task.kind == "binary":
            return float(functional.binary_cross_entropy_with_logits(logits[:, 0], y.double()))
        return float(functional.cross_entropy(logits, y.long()))

    best = minimize_scalar(loss, bounds=(-_FARTHEST, _FARTHEST), method="bounded")
    return Calibration(float(np.exp(best.x)), offset)
