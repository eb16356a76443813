"""Weights that change with the epoch or the step."""

import math


def power(alpha: float, epoch: int, exponent: float) -> float:
    """α·epoch^p, from 0 in the first epoch unless p is 0."""
    return float(alpha * epoch**exponent)


def staircase(epoch: int, interval: int, first: float, step: float, final: float) -> float:
    """From `first` down by `step` every `interval` epochs, never below `final`."""
    return max(final, first - step * (epoch // interval))


def warm_up(weight: float, step: int, steps: int) -> float:
    """At most 1 for the first steps, then `weight`; the optimizer's state is kept."""
    return min(1.0, weight) if step < steps else weight


def ramp(progress: float) -> float:
    """The S-shaped rise of adversarial weights from 0 to almost 1, as in DANN: 2/(1 + e^(-10t)) - 1."""
    return 2 / (1 + math.exp(-10 * progress)) - 1
