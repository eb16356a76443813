"""A classifier of molecules or graphs that is trained to survive a shift."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import ClassifierMixin

from outland.estimators.base import GraphEstimator
from outland.estimators.inputs import BadInput
from outland.estimators.splitting import Domain
from outland.graphs import Task
from outland.models import TrainedModel


class GraphClassifier(ClassifierMixin, GraphEstimator):  # type: ignore[misc]
    """A classifier of molecules or graphs, also of such as are unlike the training ones.

    Validation rows are split off the training set so that they imitate the shift: with `domain="scaffold"`, whole
    scaffolds, the rare ones. They select the epoch and the temperature of the probabilities.

    Args:
        method: a name from `outland list methods`, or NAME:PRESET.
        domain: what will be new: `scaffold`, `size`, `cluster`, `random` (nothing) or `environment`; `auto` is scaffold
            for molecules and size for graphs.
        validation: share of the rows that is held out.
        epochs: passes over the training rows; None takes as many as make 80,000 looks at a graph, from 4 to 40.
        class_weight: `balanced` draws rare classes as often as the others (a row at most ten times an epoch), and
            corrects the probabilities for it; None leaves classes as they are.
        method_params, backbone, train: changes of the method's settings, the network's, and the training loop's.
        random_state: decides everything random.
        device: `cpu`, `cuda`, or `auto`.
        verbose: show progress.

    >>> smiles = ["CCO", "CCN", "CCC", "c1ccccc1O", "c1ccccc1N", "c1ccccc1C"] * 4
    >>> model = GraphClassifier("erm", domain="random", validation=0.4, epochs=1)
    >>> model = model.fit(smiles, (["chain"] * 3 + ["ring"] * 3) * 4)
    >>> model.predict_proba(["CCCl"]).shape, model.classes_.tolist()
    ((1, 2), ['chain', 'ring'])
    """

    predicts_classes: ClassVar[bool] = True
    classes_: np.ndarray[Any, Any]

    def __init__(
        self,
        method: str = "aia",
        *,
        domain: Domain = "auto",
        validation: float = 0.1,
        epochs: int | None = None,
        class_weight: Literal["balanced"] | None = "balanced",
        method_params: Mapping[str, Any] | None = None,
        backbone: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None,
        random_state: int | None = 0,
        device: str = "cpu",
        verbose: bool = False,
        **renamed: Any,
    ) -> None:
        super().__init__(
            method,
            domain=domain,
            validation=validation,
            epochs=epochs,
            method_params=method_params,
            backbone=backbone,
            train=train,
            random_state=random_state,
            device=device,
            verbose=verbose,
            **renamed,
        )
        self.class_weight = class_weight

    def predict(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """The class of each row."""
        predictions = self._predictions(X)
        classes: np.ndarray[Any, Any] = self.classes_[self.model_.decisions(predictions)]
        return classes

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Probabilities `[rows, classes]`, in the order of `classes_`, scaled on validation rows only.

        A loaded model of several targets gives `[rows, targets]`, of the second class each, as scikit-learn's
        multilabel classifiers do.
        """
        predictions = self._predictions(X)
        return self.model_.probabilities(predictions)

    def _train_changes(self) -> dict[str, Any]:
        if self.class_weight not in ("balanced", None):
            raise BadInput(f"class_weight is 'balanced' or None, not {self.class_weight!r}")
        return {"class_balance": self.class_weight == "balanced"}

    @classmethod
    def _params_of(cls, model: TrainedModel) -> dict[str, Any]:
        class_weight = "balanced" if model.spec.train.class_balance else None
        return {**super()._params_of(model), "class_weight": class_weight}

    def _set_fitted_attributes(self) -> None:
        self.classes_ = np.array(self.model_.classes)

    def _labels(self, y: Any, rows: int) -> tuple[torch.Tensor, Task, tuple[Any, ...]]:
        values = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.shape != (rows,):
            raise BadInput(f"y must have one label for each of {rows} rows, not the shape {values.shape}")
        if values.dtype == object:
            values = _as_array([value.item() if hasattr(value, "item") else value for value in values])
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise BadInput(f"row {int((~np.isfinite(values)).argmax())} has no label: leave such rows out")
        classes, codes = np.unique(values, return_inverse=True)
        if len(classes) < 2:
            raise BadInput(f"every label is {classes[0].item()!r}: there is nothing to tell apart")
        if values.dtype.kind == "f" and (len(classes) > 50 or (classes != np.round(classes)).any()):
            raise BadInput("the labels are numbers, not classes: use GraphRegressor")
        names = tuple(name.item() for name in classes)
        if len(classes) == 2:
            return torch.from_numpy(codes.reshape(-1, 1).astype(np.float32)), Task("binary", 1, "rocauc"), names
        return torch.from_numpy(codes.reshape(-1).astype(np.int64)), Task("multiclass", len(classes), "accuracy"), names


def _as_array(labels: list[Any]) -> np.ndarray[Any, Any]:
    """Labels as they are: numbers as numbers, text as text."""
    for row, label in enumerate(labels):
        if label is None or type(label).__name__ in ("NAType", "NaTType") or label != label:
            raise BadInput(f"row {row} has no label: leave such rows out")
    kinds = {type(label) for label in labels}
    if kinds <= {str} or kinds <= {bool} or kinds <= {int, float}:
        return np.array(labels)
    named = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise BadInput(f"labels must be all text, all numbers or all true and false, not {named}")
