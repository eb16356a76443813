"""Metrics of many draws of rows at once: a draw is a weight for each row, how often it was drawn; and means."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
WeightedMetric = Callable[[Array, Array, Array], Array]
_NUMBERS_AT_ONCE = 1 << 20  # weights in memory
_DRAWS = 2000


class Interval(NamedTuple):
    """A mean over rows with its 95% interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: Array, generator: np.random.Generator) -> Interval:
    """The mean of `values` `[n]`, bootstrapped over them."""
    draws = generator.integers(len(values), size=(_DRAWS, len(values)))
    low, high = np.quantile(values[draws].mean(1), (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))


def draw_groups(measure: Callable[[Array], Array], groups: Array, seed: int, count: int) -> Array:
    """What is measured in `count` draws of whole groups `[draws, columns]`, without draws where it is undefined.

    Args:
        measure: of weights `[draws, n]`, which gives `[draws, columns]`.
        groups: of the rows `[n]`.
        seed: of the draws.
        count: how many.
    """
    names, group = np.unique(groups, return_inverse=True)
    generator, found = np.random.default_rng(seed), []
    at_once = max(1, _NUMBERS_AT_ONCE // len(groups))
    for done in range(0, count, at_once):
        draws = min(at_once, count - done)
        drawn = generator.integers(len(names), size=(draws, len(names))) + len(names) * np.arange(draws)[:, None]
        times = np.bincount(drawn.ravel(), minlength=draws * len(names)).reshape(draws, len(names))
        values = measure(times[:, group].astype(np.float64))
        found.append(values[~np.isnan(values).any(1)])
    return np.concatenate(found)


def weighted_auc(score: Array, y: Array, weights: Array) -> Array:
    """ROC-AUC `[draws]`; NaN where there is one class only, or a score is not finite. All sums are exact."""
    yes, no = np.flatnonzero(y == 1), np.flatnonzero(y != 1)
    no = no[np.argsort(score[no])]
    below = np.pad(np.cumsum(weights[:, no], axis=1), ((0, 0), (1, 0)))
    first, last = (np.searchsorted(score[no], score[yes], side) for side in ("left", "right"))
    wins = (weights[:, yes] * (below[:, first] + below[:, last])).sum(1) / 2
    return _defined(ratio(wins, weights[:, yes].sum(1) * below[:, -1]), score, weights)


def weighted_accuracy(classes: Array, y: Array, weights: Array) -> Array:
    """Share of right classes `[draws]`; NaN where there are no rows, or a class is not finite."""
    return _defined(ratio(weights @ (classes == y), weights.sum(1)), classes, weights)


def weighted_rmse(numbers: Array, y: Array, weights: Array) -> Array:
    """Root mean squared error `[draws]`; NaN where there are no rows, or a number is not finite."""
    errors = np.square(np.where(np.isfinite(numbers), numbers, y) - y)  # nothing times infinity is no number
    return _defined(np.sqrt(ratio(weights @ errors, weights.sum(1))), numbers, weights)


def _defined(values: Array, predicted: Array, weights: Array) -> Array:
    """The values `[draws]`, NaN in draws of rows whose prediction is not finite, which would have a rank."""
    result: Array = np.where(weights @ ~np.isfinite(predicted) > 0, np.nan, values)
    return result


def ratio(part: Array, whole: Array) -> Array:
    """A quotient; NaN where nothing is divided by."""
    result: Array = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return result
