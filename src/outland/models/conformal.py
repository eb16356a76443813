"""Conformal prediction: sets of classes and intervals of numbers that hold the truth as often as asked."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.graphs import Task

COVERAGE = 0.9
Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Conformal:
    r"""Scores of out-of-fold rows, of which quantiles are taken (Vovk et al., 2005; Tibshirani et al., 2019).

    The score of a class is :math:`1 - p`, and a class is in the set where its score is at most the quantile of the rows
    of that class, so that each class is covered (Mondrian). The score of a number is its residual, divided by a scale
    such as its expected error. Under a covariate shift rows count by the likelihood ratio of new to training data, and
    the new row by its own.

    Args:
        scores: of the true class or number, NaN where it is unknown `[n, targets]`.
        labels: the class, 0 for numbers `[n, targets]`.
        features: of the rows, to estimate a shift by `[n, d]`; None where there are none.
        least_scale: that a residual is divided by.
    """

    scores: Tensor
    labels: Tensor
    features: Tensor | None = None
    least_scale: float = 1.0

    @classmethod
    def of_classes(cls, probabilities: Array, y: Array, task: Task, features: Tensor | None = None) -> "Conformal":
        """From calibrated out-of-fold probabilities, as `TrainedModel.probabilities` gives them, and labels."""
        p = class_probabilities(probabilities, task)
        y = y.reshape(len(y), -1)
        known = ~np.isnan(y)
        labels = np.where(known, y, 0).astype(np.int64)
        scores = np.where(known, 1 - np.take_along_axis(p, labels[:, :, None], 2)[:, :, 0], np.nan)
        return cls(torch.from_numpy(scores).float(), torch.from_numpy(labels), features)

    @classmethod
    def of_numbers(
        cls, numbers: Array, y: Array, scale: Array | None = None, features: Tensor | None = None
    ) -> "Conformal":
        """From out-of-fold numbers and labels `[n]` or `[n, targets]`, both in the labels' units.

        `scale` is `[n]`, by rows that are not those it is of, as it will be for new ones; NaN where no label is known.
        """
        least = 1.0 if scale is None or not len(scale) else max(0.1 * float(np.nanmedian(scale)), 1e-12)
        residual = np.abs(numbers - y).reshape(len(y), -1)
        scores = torch.from_numpy(residual / _scales(scale, len(y), least)[:, None]).float()
        return cls(scores, torch.zeros(scores.shape, dtype=torch.long), features, least)

    def sets(
        self, probabilities: Array, task: Task, coverage: float = COVERAGE, weights: tuple[Array, Array] | None = None
    ) -> Flags:
        """Which classes are in the set of each row `[G, targets, classes]`; a set may be empty.

        Args:
            probabilities: calibrated, of new rows.
            task: what is predicted.
            coverage: share of the rows of each class whose set is to hold it.
            weights: likelihood ratios of the out-of-fold rows `[n]` and of the new ones `[G]`; none for equal ones.
        """
        p = class_probabilities(probabilities, task)
        inside = np.empty(p.shape, dtype=bool)
        for target in range(p.shape[1]):
            for label in range(p.shape[2]):
                limit = self._quantiles(target, label, len(p), coverage, weights)
                # As float32, which scores are kept as: forests give many rows the very same probability.
                inside[:, target, label] = (1 - p[:, target, label]).astype(np.float32) <= limit
        return inside

    def half_widths(
        self,
        rows: int,
        scale: Array | None = None,
        coverage: float = COVERAGE,
        weights: tuple[Array, Array] | None = None,
    ) -> Array:
        """Half the width of the interval of each of `rows` new rows `[G, targets]`; infinite where scores are too few.

        `scale`, `coverage` and `weights` as above.
        """
        columns = [self._quantiles(target, 0, rows, coverage, weights) for target in range(self.scores.shape[1])]
        return np.asarray(np.stack(columns, 1) * _scales(scale, rows, self.least_scale)[:, None])

    def _quantiles(
        self, target: int, label: int, rows: int, coverage: float, weights: tuple[Array, Array] | None
    ) -> Array:
        """The weighted quantile of the scores of a class, with the new row at infinity, for each of `rows` rows."""
        scores, labels = self.scores[:, target].double().numpy(), self.labels[:, target].numpy()
        known = np.isfinite(scores) & (labels == label)
        own, new = (np.ones(len(scores)), np.ones(rows)) if weights is None else weights
        order = np.argsort(scores[known])
        total = np.cumsum(own[known][order])
        needed = coverage * ((total[-1] if len(total) else 0.0) + new)
        index = np.searchsorted(total, needed - 1e-9)
        return np.asarray(np.append(scores[known][order], np.inf)[index])


def class_probabilities(probabilities: Array, task: Task) -> Array:
    """Probabilities of all classes of all targets `[G, targets, classes]`."""
    if task.kind == "binary" and task.outputs > 1:
        return np.stack([1 - probabilities, probabilities], 2)
    return probabilities[:, None]


def _scales(scale: Array | None, rows: int, least: float) -> Array:
    return np.ones(rows) if scale is None else np.maximum(scale, least)


@dataclass(frozen=True)
class LikelihoodRatio:
    """Density of new rows over that of training rows, by a logistic regression that tells the two apart.

    Args:
        center, scale: of each feature `[d]`.
        coefficients, intercept: of the logarithm of the ratio.
        auc: how well the two are told apart, cross-validated: 0.5 by chance.
        limit: the ratio is clipped to `[1 / limit, limit]`.
    """

    center: Array
    scale: Array
    coefficients: Array
    intercept: float
    auc: float
    limit: float = 5.0

    @classmethod
    def fit(cls, training: Array, new: Array, limit: float = 5.0) -> "LikelihoodRatio":
        """From features of training rows `[n, d]` and new rows `[m, d]`."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.model_selection import GridSearchCV, cross_val_predict

        both = np.concatenate([training, new])
        center, scale = both.mean(0), both.std(0)
        scale = np.where(scale > 1e-9, scale, np.inf)
        side = np.repeat([0, 1], [len(training), len(new)])
        x = np.clip((both - center) / scale, -5, 5)
        strengths = {"C": [1e-4, 1e-3, 1e-2, 1e-1]}
        grid = GridSearchCV(LogisticRegression(solver="newton-cholesky"), strengths, scoring="neg_log_loss")
        fitted = grid.fit(x, side).best_estimator_
        intercept = float(fitted.intercept_[0]) - float(np.log(len(new) / len(training)))
        auc = float(roc_auc_score(side, cross_val_predict(fitted, x, side, method="decision_function")))
        return cls(center, scale, fitted.coef_[0], intercept, auc, limit)

    def __call__(self, features: Array) -> Array:
        """Ratios of rows `[G]`."""
        x = np.clip((features - self.center) / self.scale, -5, 5)
        bound = np.log(self.limit)
        return np.asarray(np.exp(np.clip(x @ self.coefficients + self.intercept, -bound, bound)))
