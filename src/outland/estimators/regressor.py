"""A model of molecules or graphs that predicts a number and is trained to survive a shift."""

from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import RegressorMixin

from outland.estimators.base import GraphEstimator
from outland.estimators.inputs import BadInput
from outland.graphs import Task


class GraphRegressor(RegressorMixin, GraphEstimator):  # type: ignore[misc]
    """Predicts a number for each molecule or graph; arguments as of `GraphClassifier`, without `class_weight`."""

    predicts_classes: ClassVar[bool] = False

    def predict(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """The number of each row."""
        predictions = self._predictions(X)
        return self.model_.numbers(predictions)

    def _labels(self, y: Any, rows: int) -> tuple[torch.Tensor, Task, tuple[Any, ...]]:
        try:
            values = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput("the labels are not numbers: use GraphClassifier") from None
        if values.shape not in ((rows,), (rows, 1)):
            raise BadInput(f"y must have one number for each of {rows} rows, not the shape {values.shape}")
        values = values.reshape(-1)
        if not np.isfinite(values).all():
            raise BadInput(f"row {int((~np.isfinite(values)).argmax())} has no number: leave such rows out")
        return torch.from_numpy(values.astype(np.float32))[:, None], Task("regression", 1, "rmse"), ()
