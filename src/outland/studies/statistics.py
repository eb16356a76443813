"""Summaries and tests of numbers over seeds."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

LEVEL = 0.05
_MAX_EXACT_PAIRS = 16  # whose sign flips are all counted; of more pairs, a sample of flips is
_SAMPLED_FLIPS = 100_000

Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Mean and spread of numbers over seeds."""

    mean: float
    std: float  # of the population, as the paper and GOOD print it
    error: float  # standard error of the mean, from the sample standard deviation; NaN for a single number
    count: int


def summarize(values: Sequence[float]) -> Summary:
    """The summary of one number or more."""
    array = np.asarray(values, dtype=float)
    error = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else math.nan
    return Summary(float(array.mean()), float(array.std()), error, len(array))


def sign_flip_test(differences: Sequence[float]) -> float:
    r"""Two-sided p of paired differences being centred on 0: the share of sign flips that give as large a mean.

    Exact, and free of any law the scores would have to follow; with n pairs it cannot fall below :math:`2^{1-n}`.
    Beyond 16 pairs a hundred thousand flips, always the same, stand for all.

    By hand, because `scipy.stats.permutation_test` does not count sums as equal that differ by rounding.
    """
    array = np.asarray(differences, dtype=float)
    sums = np.abs(_flips(len(array)) @ array)
    return float((sums >= abs(array.sum()) - 1e-12 * np.abs(array).sum()).mean())


@lru_cache(maxsize=4)
def _flips(pairs: int) -> Table:
    """Sign flips of so many differences `[flips, pairs]`."""
    if pairs <= _MAX_EXACT_PAIRS:
        return np.array(list(itertools.product((1.0, -1.0), repeat=pairs)))
    signs = np.random.default_rng(0).choice((1.0, -1.0), size=(_SAMPLED_FLIPS, pairs))
    signs[0] = 1.0  # the observed signs are among them
    return signs


def min_p(pairs: int) -> float:
    """The smallest p that `sign_flip_test` can give."""
    return min(1.0, 2.0 ** (1 - pairs)) if pairs <= _MAX_EXACT_PAIRS else 1 / _SAMPLED_FLIPS


def holm(p: Sequence[float]) -> list[float]:
    """P-values adjusted upwards so that the chance of any false alarm among them all stays at the level (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(len(p), 0, -1) * np.asarray(p)[order]))
    return adjusted.tolist()


def average_ranks(scores: Table) -> Table:
    """Mean rank of each row of `[methods, datasets]`, best first; equal scores share their ranks."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-scores, axis=0).mean(axis=1))


def friedman(scores: Table) -> float:
    """P-value of all methods ranking alike over the datasets (Friedman 1937); 1 where nothing differs."""
    from scipy.stats import friedmanchisquare

    with np.errstate(invalid="ignore"):
        p = float(friedmanchisquare(*scores).pvalue)
    return 1.0 if math.isnan(p) else p


def critical_difference(methods: int, datasets: int, level: float = LEVEL) -> float:
    r"""Difference of average ranks that is needed to show one (Nemenyi): :math:`q\sqrt{k(k+1)/6N}`."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * datasets))


def cliques(ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """First and last index of each group of sorted ranks that are not shown to differ; none inside another."""
    groups: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(index for index in range(first, len(ranks)) if ranks[index] - ranks[first] <= critical)
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def auc_error(auc: float, positives: int, negatives: int) -> float:
    """Standard error of a ROC-AUC that comes from so few graphs (Hanley and McNeil 1982)."""
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (positives - 1) * (q1 - auc**2) + (negatives - 1) * (q2 - auc**2)
    return math.sqrt(max(variance, 0.0) / (positives * negatives))


def auc_interval(auc: float, positives: int, negatives: int, level: float = LEVEL) -> tuple[float, float]:
    """Confidence interval of a ROC-AUC, on the scale of log odds so that it stays inside (0, 1)."""
    from scipy.stats import norm

    if not 0 < auc < 1 or not positives or not negatives:
        return (0.0, 1.0)
    spread = float(norm.ppf(1 - level / 2)) * auc_error(auc, positives, negatives) / (auc * (1 - auc))
    centre = math.log(auc / (1 - auc))
    low, high = (1 / (1 + math.exp(-(centre + sign * spread))) for sign in (-1, 1))
    return low, high
