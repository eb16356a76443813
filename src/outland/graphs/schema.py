"""What the numbers of a set of graphs mean: features, labels, and how a prediction is scored."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from outland.settings import shaped

Metric = Literal["accuracy", "rocauc", "ap", "rmse"]


@dataclass(frozen=True)
class Features:
    """The columns of a node's or an edge's features.

    Real numbers have no `vocabulary`; for categorical columns it gives the number of values of each.
    """

    width: int
    vocabulary: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Task:
    """What is predicted.

    `multiclass`: one of `outputs` classes, labels `[G]` of whole numbers.
    `binary`: `outputs` yes/no questions, labels `[G, outputs]` of 0, 1 or NaN for unknown.
    `regression`: `outputs` real numbers, labels `[G, outputs]`, NaN for unknown. Where they are standardized, `mean`
    and `std` of each output lead back to the labels' own units.
    """

    kind: Literal["multiclass", "binary", "regression"]
    outputs: int
    metric: Metric
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger metric is a better one."""
        return self.metric != "rmse"

    def in_label_units(self, values: Tensor) -> Tensor:
        """Standardized outputs or labels `[..., outputs]` in the labels' own units."""
        return values * values.new_tensor(self.std) + values.new_tensor(self.mean) if self.std else values


@dataclass(frozen=True)
class Schema:
    """All that a model must know of a set of graphs before it sees one."""

    node: Features
    task: Task
    edge: Features | None = None
    environments: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Schema":
        """The inverse of `to_json`; a `ValueError` where the values are no schema."""
        if isinstance(plain, dict) and isinstance(plain.get("task"), dict):
            plain = {**plain, "task": {"mean": [], "std": [], **plain["task"]}}  # older ones have neither
        if not shaped(plain, cls):
            raise ValueError("the values of the schema are not of the right kinds")

        def features(value: dict[str, Any] | None) -> Features | None:
            if value is None:
                return None
            vocabulary = value["vocabulary"]
            if value["width"] < 1 or (
                vocabulary is not None and (len(vocabulary) != value["width"] or min(vocabulary) < 1)
            ):
                raise ValueError("the schema has impossible features")
            return Features(value["width"], None if vocabulary is None else tuple(vocabulary))

        node = features(plain["node"])
        assert node is not None
        if plain["task"]["outputs"] < 1 or plain["environments"] < 0:
            raise ValueError("the schema has an impossible task")
        task = plain["task"]
        if (
            any(len(task[name]) not in (0, task["outputs"]) for name in ("mean", "std"))
            or min(task["std"], default=1) <= 0
        ):
            raise ValueError("the schema has an impossible task")
        task = Task(**{**task, "mean": tuple(task["mean"]), "std": tuple(task["std"])})
        return cls(node, task, features(plain["edge"]), plain["environments"])
