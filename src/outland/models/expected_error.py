"""The error to expect of a prediction, learned on out-of-fold rows; flags by it, and whether they sort errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.graphs import Task

FLAGS = ("near", "edge", "far")
FEWEST = 50  # out-of-fold rows, below which nothing is learned
_EDGE, _FAR = 0.60, 0.85  # quantiles of the expected error where flags change
_KNOTS = 41
_NOVELTY = ("dissimilarity", "distance")  # signals that say by themselves that a row is like no training row
_BEYOND = 0.01  # of its range: how far beyond all out-of-fold rows such a signal makes a row `far`
_RIDGE = 1.0
Array = npt.NDArray[np.float64]
Signals = Mapping[str, Array]


def prediction_signals(
    task: Task,
    *,
    members: Tensor | None = None,
    weights: Sequence[float] = (),
    probabilities: Array | None = None,
    similarity: Array | None = None,
    distances: Tensor | None = None,
) -> dict[str, Array]:
    """What may tell how wrong predictions are, larger for worse; those that are not known are left out.

    Args:
        task: what is predicted.
        members: outputs of each member `[G, members, outputs]`; of one alone there is no spread.
        weights: of the members in the mean; empty for equal ones.
        probabilities: calibrated, `[G, classes]`, or `[G, targets]` for several binary targets.
        similarity: to the nearest training fingerprints `[G]`.
        distances: of embeddings `[G]`.
    """
    signals: dict[str, Array] = {}
    if similarity is not None:
        signals["dissimilarity"] = 1 - similarity
    if distances is not None:
        signals["distance"] = distances.double().numpy()
    if members is not None:
        values = members.double()
        values = {"binary": values.sigmoid(), "multiclass": values.exp()}.get(task.kind, values)
        share = values.new_tensor(weights or [1 / values.shape[1]] * values.shape[1])[:, None]
        mean = (share * values).sum(1, keepdim=True)
        if values.shape[1] > 1:
            signals["spread"] = (share * (values - mean).square()).sum(1).sqrt().mean(1).numpy()
        if task.kind == "regression":  # numbers are standardized
            signals["extremity"] = mean.abs().mean((1, 2)).numpy()
    if probabilities is not None:
        several = task.kind == "binary" and task.outputs > 1
        doubt = np.minimum(probabilities, 1 - probabilities).mean(1) if several else 1 - probabilities.max(1)
        signals["uncertainty"] = doubt
    return signals


def row_errors(task: Task, predicted: Array, y: Array) -> Array:
    """Error of each row, mean over its known targets, NaN without any `[G]`.

    Whether a call is wrong where `predicted` are classes, |number − label| where they are numbers.
    """
    predicted, y = predicted.reshape(len(y), -1), y.reshape(len(y), -1)
    errors = np.abs(predicted - y) if task.kind == "regression" else np.where(np.isnan(y), np.nan, predicted != y)
    known = ~np.isnan(errors)
    total = np.where(known, errors, 0).sum(1)
    return np.asarray(np.where(known.any(1), total / np.maximum(known.sum(1), 1), np.nan))


@dataclass(frozen=True)
class FlagErrors:
    """Out-of-fold rows with a flag: how many, and their mean error."""

    rows: int
    error: float


@dataclass(frozen=True)
class ExpectedError:
    r"""Expected error :math:`b + \sum_j w_j u_j + v_j\,(2 u_j - 1)_+` of a row.

    u is the rank of a signal among out-of-fold rows, from 0 to 1; b, w and v are non-negative, so that the error never
    falls where a signal rises. The 60 % and 85 % quantiles of the expected error divide `near`, `edge` and `far`; a row
    that is less like training molecules than any out-of-fold row was is `far` in any case.

    Args:
        names: of the signals.
        knots: quantiles of each signal over out-of-fold rows `[signals, 41]`.
        weights: b, w of each signal, v of each signal.
        edge, far: expected errors from which on a row has these flags.
        by_flag: what `near`, `edge` and `far` meant on out-of-fold rows, flagged without having been learned from.
        sorts: whether errors rose from near to far there, by more than chance.
    """

    names: tuple[str, ...]
    knots: Tensor
    weights: tuple[float, ...]
    edge: float
    far: float
    by_flag: tuple[FlagErrors, ...]
    sorts: bool

    @classmethod
    def fit(cls, signals: Signals, error: Array, groups: Array | None = None, seed: int = 0) -> "ExpectedError | None":
        """From signals and errors of out-of-fold rows `[n]`; None where they are too few.

        Args:
            signals: see `prediction_signals`.
            error: see `row_errors`; rows with NaN are left out.
            groups: scaffold of each row; rows of one group stay together when flags are judged.
            seed: of the folds that flags are judged with.
        """
        fitted = cls.fit_out_of_fold(signals, error, groups, seed)
        return None if fitted is None else fitted[0]

    @classmethod
    def fit_out_of_fold(
        cls, signals: Signals, error: Array, groups: Array | None = None, seed: int = 0
    ) -> "tuple[ExpectedError, Array] | None":
        """As `fit`, and the expected error of each row by what was learned on other groups, NaN where it has none.

        Errors are a little smaller beside what was learned from them than beside what was not, as for new rows.
        """
        known = np.isfinite(error)
        names = tuple(signals)
        rows = np.stack([signals[name][known] for name in names]) if names else np.zeros((0, int(known.sum())))
        known_error = error[known]
        if len(known_error) < FEWEST or not names or not np.isfinite(rows).all():
            return None
        group = np.arange(len(known_error)) if groups is None else np.unique(groups[known], return_inverse=True)[1]
        group = group if group.max() else np.arange(len(group))  # one group cannot be divided
        fold = np.random.default_rng(seed).permutation(group.max() + 1)[group] % 5
        level, expected = np.empty(len(known_error), dtype=int), np.full(len(error), np.nan)
        for number in np.unique(fold):
            inside = fold == number
            knots, weights, edge, far = _learn(rows[:, ~inside], known_error[~inside])
            of_others = _design(rows[:, inside], knots) @ weights
            level[inside] = (of_others > edge).astype(int) + (of_others > far)
            expected[np.flatnonzero(known)[inside]] = of_others
        knots, weights, edge, far = _learn(rows, known_error)
        by_flag, sorts = _judge(level, known_error)
        learned = cls(names, torch.from_numpy(knots).float(), tuple(weights.tolist()), edge, far, by_flag, sorts)
        return learned, expected

    def expected(self, signals: Signals) -> Array:
        """Expected error of rows `[G]`, in the labels' own units, or as the probability of a wrong call."""
        design = _design(self._rows(signals), self.knots.double().numpy())
        return np.asarray(design @ np.array(self.weights))

    @property
    def of_far(self) -> float:
        """The least error to expect of a molecule with an unseen element: the mean of far rows out of fold."""
        return max(self.far, self.by_flag[-1].error)

    def flags(self, signals: Signals) -> list[str]:
        """`near`, `edge` or `far` for each row; empty where a signal is not finite."""
        rows, knots, expected = self._rows(signals), self.knots.double().numpy(), self.expected(signals)
        level = (expected > self.edge).astype(int) + (expected > self.far)
        for name, row, (*_, before, last) in zip(self.names, rows, knots, strict=True):
            if name in _NOVELTY:
                level[row > last + _BEYOND * abs(last) + (last - before)] = 2
        level[~np.isfinite(rows).all(axis=0)] = -1
        return [FLAGS[number] if number >= 0 else "" for number in level]

    def _rows(self, signals: Signals) -> Array:
        return np.stack([signals[name] for name in self.names])

    def to_json(self) -> dict[str, Any]:
        """Plain values but for `knots`."""
        return {
            "names": list(self.names),
            "weights": list(self.weights),
            "edge": self.edge,
            "far": self.far,
            "by_flag": [{"rows": flag.rows, "error": flag.error} for flag in self.by_flag],
            "sorts": self.sorts,
        }


def _knots(rows: Array) -> Array:
    return np.asarray(np.quantile(rows, np.linspace(0, 1, _KNOTS), axis=1).T)


def _design(rows: Array, knots: Array) -> Array:
    """Columns 1, u and (2u − 1)₊ of rows `[signals, G]`."""
    levels = np.linspace(0, 1, knots.shape[1])
    u = np.stack([np.interp(row, own, levels) for row, own in zip(rows, knots, strict=True)], 1)
    return np.concatenate([np.ones((len(u), 1)), u, np.maximum(2 * u - 1, 0)], 1)


def _weights(rows: Array, error: Array, knots: Array) -> Array:
    """Non-negative least squares with a ridge; errors beyond the 95 % quantile count as that."""
    from scipy.optimize import nnls

    design = _design(rows, knots)
    if len(np.unique(error)) > 2:
        error = np.minimum(error, np.quantile(error, 0.95))
    ridge = np.sqrt(_RIDGE) * np.eye(design.shape[1])[1:]
    return np.asarray(nnls(np.concatenate([design, ridge]), np.concatenate([error, np.zeros(len(ridge))]))[0])


def _learn(rows: Array, error: Array) -> tuple[Array, Array, float, float]:
    """Knots, weights, and the expected errors where flags change."""
    knots = _knots(rows)
    weights = _weights(rows, error, knots)
    edge, far = np.quantile(_design(rows, knots) @ weights, [_EDGE, _FAR])
    return knots, weights, float(edge), float(far)


def _judge(level: npt.NDArray[np.intp], error: Array) -> tuple[tuple[FlagErrors, ...], bool]:
    """Mean error by flag, and whether it rises from near to far, by more than 1.64 standard errors in all."""
    parts = [error[level == number] for number in range(3)]
    by_flag = tuple(FlagErrors(len(part), float(part.mean()) if len(part) else 0.0) for part in parts)
    if min(len(part) for part in parts) < 2:
        return by_flag, False
    noise = np.sqrt(sum(part.var(ddof=1) / len(part) for part in (parts[0], parts[2])))
    near, middle, last = (flag.error for flag in by_flag)
    return by_flag, bool(near <= middle <= last and last - near > 1.64 * noise)
