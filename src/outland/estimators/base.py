"""The scikit-learn face: what the estimators on SMILES, RDKit molecules or PyG graphs share."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outland.devices import find_device
from outland.errors import unknown
from outland.estimators.explaining import explain_graphs
from outland.estimators.fitting import Plan, train_model
from outland.estimators.folder import load_folder, save_folder
from outland.estimators.inputs import BadInput, Inputs, read_inputs
from outland.estimators.model import Answers, FittedModel
from outland.estimators.seen import sorted_hashes
from outland.estimators.splitting import Shift, resolve_shift, split_validation, training_environments
from outland.graphs import Schema, Splits, Task
from outland.methods import find_method, method_settings
from outland.nn import BackboneSettings
from outland.shift import ShiftResult, ShiftSettings, measure_shift
from outland.storage.snapshots import DamagedSnapshot
from outland.training import TrainSettings
from outland.training.callbacks import progress_callback

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation

_GROUPS = {"method": "settings", "backbone": "backbone", "train": "train"}
QUICK_SHIFT = ShiftSettings(trials=2, most=500, folds=3, steps=100)  # half a minute


class GraphEstimator(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share.

    Single settings can be named as `method__gamma`, `backbone__width` or `train__batch_size` in `set_params` and in the
    grid of a search; `search_space` is the grid that goes with the method.

    Attributes:
        model_: the fitted model.
    """

    classifies: ClassVar[bool]
    model_: FittedModel

    def __init__(
        self,
        method: str = "aia",
        *,
        shift: Shift = "auto",
        validation: float = 0.1,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        backbone: Mapping[str, Any] | None = None,
        train: Mapping[str, Any] | None = None,
        random_state: int | None = 0,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.method, self.validation, self.epochs = method, validation, epochs
        self.settings, self.backbone, self.train = settings, backbone, train
        self.random_state, self.device, self.verbose = random_state, device, verbose
        self._shift = shift  # `shift` itself is what is asked of a fitted model

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; deep, also the single settings that are changed, as `method__gamma`."""
        found = {name: getattr(self, "_shift" if name == "shift" else name) for name in self._get_param_names()}
        if deep:
            for group, attribute in _GROUPS.items():
                given = getattr(self, attribute) or {}
                found |= {f"{group}__{name}": value for name, value in given.items()}
        return found

    def _names(self, group: str) -> list[str]:
        """What can be set in a group."""
        kinds: dict[str, Any] = {"backbone": BackboneSettings, "train": TrainSettings}
        if group == "method":
            return list(vars(method_settings(self.method, {})))
        return list(vars(kinds[group]()))

    def set_params(self, **params: Any) -> Self:
        """Change arguments, or single settings as `method__gamma`."""
        valid = self._get_param_names()
        if "method" in params:  # what else is set may belong to it
            self.method = params["method"]
        for name, value in params.items():
            group, dunder, setting = name.partition("__")
            if dunder and group in _GROUPS:
                if setting not in self._names(group):
                    raise BadInput(str(unknown(f"setting of {group}", setting, self._names(group))))
                setattr(self, _GROUPS[group], {**(getattr(self, _GROUPS[group]) or {}), setting: value})
            elif name in valid:
                setattr(self, "_shift" if name == "shift" else name, value)
            else:
                raise BadInput(str(unknown(f"parameter of {type(self).__name__}", name, valid)))
        return self

    def search_space(self) -> dict[str, list[Any]]:
        """The method's own grid, for `GridSearchCV` and its like; where it has none, a few learning rates."""
        space = find_method(self.method).space or {"lr": (1e-2, 1e-3, 1e-4)}
        return {f"method__{name}": list(values) for name, values in space.items()}

    def fit(self, X: Any, y: Any, environments: Any = None) -> Self:  # noqa: N803
        """Train.

        Args:
            X: SMILES, RDKit molecules or PyG graphs, one a row.
            y: a label for each row.
            environments: where each row comes from, for methods that ask; without them rows are parted by scaffold or
                size.
        """
        wanted = self._shift == "auto" or self._shift == "scaffold"
        inputs = read_inputs(X, scaffold=wanted, clusters=self._shift == "cluster")
        shift = resolve_shift(self._shift, inputs.kind)
        labels, task, classes = self._labels(y, len(inputs.graphs))
        seed = 0 if self.random_state is None else int(self.random_state)
        parts = split_validation(inputs, shift, self.validation, environments, seed)
        environment, number = training_environments(inputs, shift, parts["train"], environments)
        graphs = replace(inputs.graphs, y=labels, environment=environment)
        schema = Schema(inputs.node, task, inputs.edge, number)
        changes = {"method": self.settings, "backbone": self.backbone, "train": self.train}
        model = train_model(
            Splits(graphs, parts, schema, {"domain": shift}),
            Plan.make(self.method, self.epochs, self._balance(), changes),
            kind=inputs.kind,
            classes=classes,
            seed=seed,
            device=find_device(self.device),
            callback=progress_callback() if self.verbose else None,
        )
        model.about.update(shift=shift, estimator=self._plain_params())
        self.model_ = replace(model, seen=sorted_hashes(inputs.texts))
        self._fitted()
        return self

    def _balance(self) -> bool:
        return False

    def _fitted(self) -> None:
        """Set what scikit-learn expects of a fitted estimator."""

    def _labels(self, y: Any, rows: int) -> tuple[torch.Tensor, Task, tuple[Any, ...]]:
        raise NotImplementedError

    def _answers(self, X: Any) -> Answers:  # noqa: N803
        check_is_fitted(self, "model_")
        return self.model_.answer(self._read(X).fitting(self.model_.schema))

    def _read(self, X: Any) -> Inputs:  # noqa: N803
        inputs = read_inputs(X)
        if inputs.kind != self.model_.kind:
            raise BadInput(f"this model was trained on {self.model_.kind}, and these are {inputs.kind}")
        return inputs

    def distance(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """How unusual each row is for the model: one training row in twenty lies above 1 (see `Familiar`)."""
        found: np.ndarray[Any, Any] = self._answers(X).distances.numpy()
        return found

    def explain(self, X: Any) -> list["Explanation"]:  # noqa: N803
        """What each prediction rests on, as PyG explanations with `node_mask` and `edge_mask`.

        Methods with a stable mask give it; for others it is the gradient's saliency. `kind` of each says which.
        """
        check_is_fitted(self, "model_")
        return explain_graphs(self.model_, self._read(X).fitting(self.model_.schema))

    def shift(self, X: Any, settings: ShiftSettings | None = None) -> ShiftResult:  # noqa: N803
        """How far rows are from those the model was trained on (GCS); at least twenty are needed."""
        check_is_fitted(self, "model_")
        graphs = self._read(X).fitting(self.model_.schema)
        schema, seed = self.model_.schema, self.model_.about["seed"]
        return measure_shift(
            self.model_.sample, graphs, schema=schema, labels=False, settings=settings or QUICK_SHIFT, seed=seed
        )

    def save(self, folder: Path | str, force: bool = False) -> Path:
        """Write the model folder; an existing one is replaced only with `force`."""
        check_is_fitted(self, "model_")
        return save_folder(self.model_, Path(folder), force)

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu") -> Self:
        """Read a model folder. Nothing in it is executed."""
        model = load_folder(Path(folder), find_device(device))
        if (model.task.kind != "regression") is not cls.classifies:
            kind, right = ("classes", "GraphClassifier") if model.classes else ("numbers", "GraphRegressor")
            raise BadInput(f"the model in {folder} predicts {kind}: load it with {right}")
        try:
            found = cls(**{**model.about.get("estimator", {}), "device": device})
        except TypeError as problem:
            raise DamagedSnapshot(f"{folder} does not fit together: {problem}") from None
        found.model_ = model
        found._fitted()
        return found

    def _plain_params(self) -> dict[str, Any]:
        """The constructor's arguments as a file can hold them."""
        found = self.get_params(deep=False)
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}
