"""A classifier of molecules or graphs that is trained to survive a shift."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import ClassifierMixin

from outland.estimators.base import GraphEstimator
from outland.estimators.inputs import BadInput, as_list
from outland.estimators.labels import Labels, class_labels, class_weights, is_missing, label_table, row_weights
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
            corrects the probabilities for it; `{class: weight}` draws each class so often, and corrects as well; None
            leaves classes as they are.
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
    classes_: np.ndarray[Any, Any] | list[np.ndarray[Any, Any]]

    def __init__(
        self,
        method: str = "aia",
        *,
        domain: Domain = "auto",
        validation: float = 0.1,
        epochs: int | None = None,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = "balanced",
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
        """The class of each row `[rows]`, or `[rows, targets]`; NaN for a row that cannot be read."""
        predictions, inputs = self._predictions(X)
        return inputs.in_all_rows(np.array(self.model_.classes)[self.model_.decisions(predictions)])

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Probabilities `[rows, classes]`, in the order of `classes_`, scaled on validation rows only.

        Of several targets they are `[rows, targets]`, of the second class each, as scikit-learn's multilabel
        classifiers have it. Those of a row that cannot be read are NaN.
        """
        predictions, inputs = self._predictions(X)
        return inputs.in_all_rows(self.model_.probabilities(predictions))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Accuracy over the rows that can be read and have a label; of several targets all known ones must be right."""
        labels, called = label_table(y, len(as_list(X))), self.predict(X)
        called = called.reshape(len(labels), -1)
        known, readable = ~is_missing(labels), ~is_missing(called).any(1)
        judged = known.any(1) & readable
        right = ((called == labels) | ~known).all(1)
        weight = row_weights(sample_weight, len(labels))
        return float(np.average(right[judged], weights=None if weight is None else weight[judged]))

    def _train_changes(self) -> dict[str, Any]:
        if not (self.class_weight in ("balanced", None) or isinstance(self.class_weight, Mapping)):
            raise BadInput(f"class_weight is 'balanced', None or a weight by class, not {self.class_weight!r}")
        return {"class_balance": self.class_weight == "balanced"}

    def _class_weights(self, classes: tuple[Any, ...], task: Task) -> list[float]:
        return class_weights(self.class_weight, classes, task) if isinstance(self.class_weight, Mapping) else []

    @classmethod
    def _params_of(cls, model: TrainedModel) -> dict[str, Any]:
        class_weight: Any = "balanced" if model.spec.train.class_balance else None
        if weights := model.training.data.get("class_weight"):
            class_weight = dict(zip(model.classes, weights, strict=True))
        return {**super()._params_of(model), "class_weight": class_weight}

    def _set_fitted_attributes(self) -> None:
        super()._set_fitted_attributes()
        classes, targets = np.array(self.model_.classes), len(self.model_.targets)
        self.classes_ = classes if targets == 1 else [classes] * targets

    def _labels(self, labels: Labels) -> tuple[torch.Tensor, Task, tuple[Any, ...]]:
        return class_labels(labels)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = tags.classifier_tags.multi_label = True
        return tags
