"""What the scikit-learn estimators on SMILES, RDKit molecules or PyG graphs share."""

import numbers
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from outland.chem.featurizer import parse as parse_smiles
from outland.devices import find_device, one_blas_thread, one_thread
from outland.estimators.html import fitted_html
from outland.estimators.inputs import BadInput, Inputs, as_list, read_inputs
from outland.estimators.labels import Labels, Weights, label_table, row_weights, usable_rows
from outland.estimators.splitting import (
    DOMAINS,
    Domain,
    environment_names,
    resolve_domain,
    split_validation,
    training_environments,
)
from outland.graphs import Schema, Splits, Task
from outland.methods import find_method
from outland.models import Predictions, TrainedModel, load_model, save_model
from outland.models.explanations import View, explain_graphs
from outland.settings import Seed, parse
from outland.shift import ShiftResult, ShiftSettings
from outland.shift.measure import QUICK, shift_from_training
from outland.spec import RunSpec
from outland.tables.duplicates import sorted_hashes
from outland.training import RunRecord
from outland.training.callbacks import progress_callback
from outland.training.capture import wait_for
from outland.training.runs import Training

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation

_RENAMED = {"shift": "domain", "settings": "method_params"}


class GraphEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share.

    Attributes:
        model_: the trained model.
        record_: of its training: curves, selection, timing; not there after `load`.
        n_iter_: epochs that were trained.
    """

    predicts_classes: ClassVar[bool]
    model_: TrainedModel
    record_: RunRecord
    n_iter_: int

    def __init__(
        self,
        method: str = "aia",
        *,
        domain: Domain = "auto",
        validation: float = 0.1,
        epochs: int | None = None,
        method_params: Mapping[str, Any] | None = None,
        backbone: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None,
        random_state: int | None = 0,
        device: str = "cpu",
        verbose: bool = False,
        **renamed: Any,
    ) -> None:
        self.method, self.domain, self.validation, self.epochs = method, domain, validation, epochs
        self.method_params, self.backbone, self.train = method_params, backbone, train
        self.random_state, self.device, self.verbose = random_state, device, verbose
        caller = 2 if type(self).__init__ is GraphEstimator.__init__ else 3
        for old, value in renamed.items():
            if old not in _RENAMED:
                raise TypeError(f"{type(self).__name__} has no parameter '{old}'")
            warnings.warn(f"'{old}' is now called '{_RENAMED[old]}'", FutureWarning, stacklevel=caller)
            setattr(self, _RENAMED[old], value)

    def search_space(self) -> dict[str, list[Any]]:
        """The method's own grid, for `GridSearchCV` and its like; where it has none, a few learning rates."""
        space = find_method(self.method).space or {"lr": (1e-2, 1e-3, 1e-4)}
        grid = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
        return {"method_params": [{**(self.method_params or {}), **params} for params in grid]}

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, environments: Any = None) -> Self:  # noqa: N803
        """Train. Rows that cannot be read, or have no label, are left out with a warning.

        Args:
            X: SMILES, RDKit molecules or PyG graphs, one a row.
            y: a label for each row, or `[rows, targets]`; None or NaN where it is unknown.
            sample_weight: how often each training row is drawn, relative to the others; a row of 0 is left out.
            environments: where each row comes from, for methods that ask; without them rows are grouped by scaffold or
                size.
        """
        self._drawn_seed = draw_seed(self.random_state)
        rows = as_list(X)
        labels, weight = label_table(y, len(rows)), row_weights(sample_weight, len(rows))
        names, usable = environment_names(environments, len(rows)), usable_rows(labels, weight)
        inputs = read_inputs(
            rows, usable, scaffold=self.domain in ("auto", "scaffold"), clusters=self.domain == "cluster"
        )
        used = inputs.rows
        splits = self._splits(
            inputs, labels[used], None if weight is None else weight[used], None if names is None else names[used]
        )
        self._train(splits, inputs)
        self._set_fitted_attributes()
        return self

    def _train(self, splits: Splits, inputs: Inputs) -> None:
        """Train on splits; PyTorch's global generators are afterwards what they were."""
        spec, device = self._spec(splits), find_device(self.device)
        callback = progress_callback() if self.verbose else None
        with one_thread(), one_blas_thread(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            training = Training(spec, splits.to(device), device, callback=callback)
            wait_for(training.steps())
            self.record_ = training.record()
            self.model_ = replace(training.model(), training_hashes=sorted_hashes(inputs.texts))

    def _splits(
        self, inputs: Inputs, labels: Labels, weight: Weights | None, environments: npt.NDArray[np.str_] | None
    ) -> Splits:
        domain = resolve_domain(self.domain, inputs.kind)
        y, task, classes = self._labels(labels)
        parts = split_validation(inputs, domain, self.validation, environments, self._seed())
        environment, count = training_environments(inputs, domain, parts["train"], environments)
        source = {"domain": domain, "classes": list(classes), "validation": self.validation}
        extra = dict(inputs.graphs.extra)
        if class_weight := self._class_weights(classes, task):
            source["class_weight"] = class_weight
            weight = np.array(class_weight)[y.flatten().long()] * (1 if weight is None else weight)
        if weight is not None:
            extra["sample_weight"] = torch.from_numpy(weight)
        graphs = replace(inputs.graphs, y=y, environment=environment, extra=extra)
        return Splits(graphs, parts, Schema(inputs.node, task, inputs.edge, count), source)

    def _spec(self, splits: Splits) -> RunSpec:
        """The run of these parameters on splits in memory."""
        train = {**(self.train or {}), **self._train_changes()}
        if self.epochs is not None:
            train["epochs"] = self.epochs
        changes = {"method": self.method_params or {}, "backbone": self.backbone or {}, "train": train}
        return RunSpec.make(
            "memory",
            self.method,
            domain=splits.source["domain"],
            kind="none" if splits.source["domain"] == "random" else "covariate",
            seed=self._seed(),
            changes=changes,
            data_checksum=splits.checksum(),
        )

    def _seed(self) -> int:
        return self._drawn_seed

    def _train_changes(self) -> dict[str, Any]:
        return {"class_balance": False}

    def _class_weights(self, classes: tuple[Any, ...], task: Task) -> list[float]:
        """Weights of the classes by which rows are drawn; empty where they are not."""
        return []

    def _set_fitted_attributes(self) -> None:
        """Set what scikit-learn expects of a fitted estimator."""
        self.n_iter_ = self.model_.training.epochs

    def _labels(self, labels: Labels) -> tuple[torch.Tensor, Task, tuple[Any, ...]]:
        raise NotImplementedError

    def _predictions(self, X: Any) -> tuple[Predictions, Inputs]:  # noqa: N803
        inputs = self._read(X)
        return self.model_.predict(inputs.matching(self.model_.schema)), inputs

    def _read(self, X: Any) -> Inputs:  # noqa: N803
        check_is_fitted(self, "model_")
        inputs = read_inputs(X, atoms=self.model_.schema.node)
        if inputs.kind != self.model_.kind:
            raise BadInput(f"this model was trained on {self.model_.kind}, and these are {inputs.kind}")
        return inputs

    def distance(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """How unusual each row is for the model: one training row in twenty lies above 1 (see `KNNDistance`)."""
        predictions, inputs = self._predictions(X)
        if predictions.distances is None:
            raise BadInput(f"{self.model_.name} has no embeddings to take distances of")
        return inputs.in_all_rows(predictions.distances.numpy())

    def transform(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Embeddings `[rows, d]`: what the last layer of the (first) network reads."""
        predictions, inputs = self._predictions(X)
        if predictions.embeddings is None:
            raise BadInput(f"{self.model_.name} has no embeddings")
        self._n_features_out = predictions.embeddings.shape[1]
        return inputs.in_all_rows(predictions.embeddings.numpy())

    def explain(self, X: Any, show: View = "contributions") -> list["Explanation | None"]:  # noqa: N803
        """What each prediction rests on, as PyG explanations with `node_mask` and `edge_mask`; None of unreadable rows.

        These are contributions with a sign: above 0 a node pushes towards the second class, of several the one called,
        or a higher number. `show="mask"` gives the stable mask of a method that learns one.
        """
        inputs = self._read(X)
        graphs = inputs.matching(self.model_.schema)
        molecules = None
        if inputs.kind == "molecules":
            rows = as_list(X)
            molecules = [
                parse_smiles(row.strip()) if isinstance(row, str) else row for row in map(rows.__getitem__, inputs.rows)
            ]
        explanations: list[Explanation | None] = [None] * inputs.given
        for row, explanation in zip(inputs.rows, explain_graphs(self.model_, graphs, molecules, show), strict=True):
            explanations[row] = explanation
        return explanations

    def measure_shift(self, X: Any, settings: ShiftSettings | None = None) -> ShiftResult:  # noqa: N803
        """How far rows are from those the model was trained on (GCS); at least twenty are needed."""
        graphs = self._read(X).matching(self.model_.schema)
        return shift_from_training(self.model_, graphs, settings or QUICK, self.model_.spec.seed)

    def shift(self, X: Any, settings: ShiftSettings | None = None) -> ShiftResult:  # noqa: N803
        """The old name of `measure_shift`, for one release."""
        warnings.warn("'shift' is now called 'measure_shift'", FutureWarning, stacklevel=2)
        return self.measure_shift(X, settings)

    def save(self, folder: Path | str, force: bool = False) -> Path:
        """Write the model folder; an existing one is replaced only with `force`."""
        check_is_fitted(self, "model_")
        return save_model(self.model_, folder, force)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        tags.input_tags.string, tags.input_tags.allow_nan = True, True
        tags.target_tags.required, tags.target_tags.multi_output = True, True
        tags.no_validation = True
        return tags

    def _repr_html_inner(self) -> str:
        return self._repr_mimebundle_().get("text/html", "")

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle and hasattr(self, "model_"):
            bundle["text/html"] += fitted_html(self.model_)
        return bundle

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu", trust_code: bool = False) -> Self:
        """Read a model folder. Nothing in it is executed, unless `trust_code` says that a method's file may be."""
        model = load_model(folder, device, trust_code)
        if (model.task.kind != "regression") is not cls.predicts_classes:
            kind, right = ("classes", "GraphClassifier") if model.classes else ("numbers", "GraphRegressor")
            raise BadInput(f"the model in {folder} predicts {kind}: load it with {right}")
        estimator = cls(**cls._params_of(model), device=device)
        estimator.model_ = model
        estimator._set_fitted_attributes()
        return estimator

    @classmethod
    def _params_of(cls, model: TrainedModel) -> dict[str, Any]:
        """The parameters whose `fit` makes the run of a model."""
        spec = model.spec
        train = asdict(spec.train)
        epochs, total = train.pop("epochs"), train.pop("total_samples")
        del train["class_balance"]
        return {
            "method": spec.method,
            "domain": spec.domain if spec.domain in DOMAINS else "auto",
            "validation": model.training.data.get("validation", 0.1),
            "epochs": None if total else epochs,
            "method_params": asdict(spec.method_params),
            "backbone": asdict(spec.backbone),
            "train": {**train, "total_samples": total} if total else train,
            "random_state": spec.seed,
        }


def draw_seed(random_state: Any) -> int:
    """The seed of a fit: `random_state` where it is a number, 0 for None, else drawn from the generator that it is."""
    if random_state is None:
        return 0
    if isinstance(random_state, numbers.Integral):
        return int(parse(int(random_state), Seed, "random_state"))
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise BadInput(
            f"random_state must be a number, a numpy RandomState or None, not a {type(random_state).__name__}"
        ) from None
