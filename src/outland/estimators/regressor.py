"""A model of molecules or graphs that predicts a number and is trained to survive a shift."""

from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from outland.estimators.base import GraphEstimator
from outland.estimators.inputs import as_list
from outland.estimators.labels import Labels, label_table, number_labels, row_weights
from outland.graphs import Task


class GraphRegressor(RegressorMixin, GraphEstimator):  # type: ignore[misc]
    """Predicts a number for each molecule or graph; arguments as of `GraphClassifier`, without `class_weight`."""

    predicts_classes: ClassVar[bool] = False

    def predict(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """The number of each row `[rows]`, or `[rows, targets]`; NaN for a row that cannot be read."""
        predictions, inputs = self._predictions(X)
        return inputs.in_all_rows(self.model_.numbers(predictions))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """R², mean over the targets, over the rows that can be read and have a label."""
        labels = number_labels(label_table(y, len(as_list(X))))[0].double().numpy()
        weight, predicted = row_weights(sample_weight, len(labels)), self.predict(X).reshape(labels.shape)
        known = np.isfinite(labels) & np.isfinite(predicted)
        scores = [
            r2_score(truth[rows], numbers[rows], sample_weight=None if weight is None else weight[rows])
            for truth, numbers, rows in zip(labels.T, predicted.T, known.T, strict=True)
        ]
        return float(np.mean(scores))

    def _labels(self, labels: Labels) -> tuple[torch.Tensor, Task, tuple[Any, ...]]:
        return *number_labels(labels), ()
