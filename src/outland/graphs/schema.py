"""What the tensors of a set of graphs mean: features, labels, and the metric of a prediction."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter, ValidationError

from outland.settings import Count, NonNegative, PositiveInt, settings

if TYPE_CHECKING:
    from torch import Tensor

Metric = Literal["accuracy", "rocauc", "ap", "rmse"]


@settings("features")
class Features:
    """The columns of a node's or an edge's features.

    Args:
        width: number of columns.
        vocabulary: number of values of each categorical column; None for real numbers.
        version: of how they are computed, where there is another way with the same columns.
    """

    width: PositiveInt
    vocabulary: tuple[PositiveInt, ...] | None = None
    version: str = ""


@settings("task")
class Task:
    """What is predicted.

    Args:
        kind: `multiclass`: one of `outputs` classes, labels `[G]` of whole numbers. `binary`: `outputs` yes/no
            questions, labels `[G, outputs]` of 0, 1 or NaN for unknown. `regression`: `outputs` real numbers, labels
            `[G, outputs]`, NaN for unknown; standardized where `mean` and `std` are given.
        outputs: number of classes, questions or numbers.
        metric: what predictions are scored by.
        mean, std: of each number to predict, in the labels' own units.
    """

    kind: Literal["multiclass", "binary", "regression"]
    outputs: PositiveInt
    metric: Metric
    mean: tuple[float, ...] = ()
    std: tuple[NonNegative, ...] = ()

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger metric is a better one."""
        return self.metric != "rmse"

    def in_label_units(self, values: "Tensor") -> "Tensor":
        """Standardized outputs or labels `[..., outputs]` in the labels' own units."""
        return values * values.new_tensor(self.std) + values.new_tensor(self.mean) if self.std else values


@settings("schema")
class Schema:
    """All that a model must know about a set of graphs before it sees one.

    Args:
        node, edge: their features; None for edges without any.
        task: what is predicted.
        environments: number of training environments.
        descriptors: numbers of each graph as a whole that a model may read besides nodes and edges.
    """

    node: Features
    task: Task
    edge: Features | None = None
    environments: Count = 0
    descriptors: Count = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Schema":
        """The inverse of `to_json`; a `ValueError` where the values are no schema."""
        try:
            schema = TypeAdapter(cls).validate_json(json.dumps(plain), strict=True)
        except ValidationError as problem:
            error = problem.errors()[0]
            if error["type"] != "greater_than_equal":
                raise ValueError("the values of the schema are not of the right kinds") from None
            owner = "impossible features" if error["loc"][0] in ("node", "edge") else "an impossible task"
            raise ValueError(f"the schema has {owner}") from None
        for features in (schema.node, schema.edge):
            if features and features.vocabulary is not None and len(features.vocabulary) != features.width:
                raise ValueError("the schema has impossible features")
        if {len(schema.task.mean), len(schema.task.std)} not in ({0}, {schema.task.outputs}):
            raise ValueError("the schema has an impossible task")
        return schema
