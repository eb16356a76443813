"""Two sets of graphs made comparable: one set with sides, classes and a schema, or a sentence that says why not."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Schema, Splits, Task
from outland.shift.weighted import WeightedGraphs, without_extras
from outland.tables.data_list import infer_features, infer_task, validate_data_list

if TYPE_CHECKING:
    from torch_geometric.data import Data

MIN_GRAPHS = 20  # a side
_BINS = 4  # classes of a regression target, by its quartiles


@dataclass(frozen=True)
class Pair:
    """Two sets of graphs concatenated, the first set first."""

    graphs: WeightedGraphs
    schema: Schema
    side: Tensor  # 0 or 1 for each graph `[G]`
    classes: Tensor  # -1 where it is unknown, 0 everywhere without labels `[G]`
    labelled: bool  # whether classes are known at all
    notes: tuple[str, ...] = ()

    @property
    def class_count(self) -> int:
        """Number of classes; 0 without labels."""
        return int(self.classes.max()) + 1 if self.labelled else 0

    def identical(self) -> bool:
        """Whether both sides are the same graphs with the same classes, in any order; False for weighted graphs."""
        counts = torch.bincount(self.side)
        if self.graphs.weighted or counts[0] != counts[1]:
            return False
        keys = list(zip(self.graphs.fingerprints(), self.classes.tolist(), strict=True))
        return sorted(keys[: counts[0]]) == sorted(keys[counts[0] :])


def make_pair(first: Any, second: Any, schema: Schema | None = None, labels: bool = True) -> Pair:
    """Concatenate two sets, or raise an `OutlandError` that says why they cannot be compared; see `measure_shift`."""
    sides = [_weighted(first, "first"), _weighted(second, "second")]
    for side, name in zip(sides, ("first", "second"), strict=True):
        if len(side) < MIN_GRAPHS:
            raise OutlandError(f"the {name} set has {len(side)} graphs; at least {MIN_GRAPHS} are needed")
    _check_features(*(side.graphs for side in sides))
    task, notes = _task([side.graphs.y for side in sides], schema, labels)
    side_of = torch.arange(2).repeat_interleave(torch.tensor([len(side) for side in sides]))
    if task is None:
        classes = torch.zeros(len(side_of), dtype=torch.long)
    else:
        classes = _classes([side.graphs.y.cpu() for side in sides], task)
        if (classes < 0).any():
            notes.append(f"{int((classes < 0).sum())} graphs without a label are left out")
    packed = [without_extras(side.graphs.to("cpu"), y=side_of[side_of == number]) for number, side in enumerate(sides)]
    union, pair_schema = _describe(PackedGraphs.concatenate(packed), schema)
    weights: tuple[Tensor | None, Tensor | None] = (None, None)
    if any(side.weighted for side in sides):
        node, edge = zip(*(side.to("cpu").weights() for side in sides), strict=True)
        weights = torch.cat(node), torch.cat(edge)
    return Pair(WeightedGraphs(union, *weights), pair_schema, side_of, classes, task is not None, tuple(notes))


def _weighted(graphs: Any, name: str) -> WeightedGraphs:
    """One side's graphs; PyG graphs may have no label, and may have `node_weight` and `edge_weight`."""
    if isinstance(graphs, WeightedGraphs):
        return graphs
    if isinstance(graphs, PackedGraphs):
        return WeightedGraphs(graphs)
    try:
        copies = validate_data_list(graphs, with_environment=False)
        if not copies:
            raise OutlandError("it has no graphs")
        if all(graph.y is None for graph in copies):
            for graph in copies:
                graph.y = torch.tensor([torch.nan])
        packed = PackedGraphs.from_data_list(copies)
    except OutlandError as problem:
        raise OutlandError(f"the {name} set: {problem}") from None
    return WeightedGraphs(packed, _concatenated(copies, "node_weight"), _concatenated(copies, "edge_weight"))


def _concatenated(graphs: list["Data"], name: str) -> Tensor | None:
    weights = [getattr(graph, name, None) for graph in graphs]
    if any(weight is None for weight in weights):
        return None
    return torch.cat([torch.as_tensor(weight).reshape(-1) for weight in weights])


def _check_features(first: PackedGraphs, second: PackedGraphs) -> None:
    """Raise an `OutlandError` where the features of the two sets differ in number or kind."""
    for kind, here, there in (("node", first.x, second.x), ("edge", first.edge_attr, second.edge_attr)):
        if here is None and there is None:
            continue
        if here is None or there is None:
            raise OutlandError(f"only one of the two sets has {kind} features: give both the same, or take them away")
        if here.shape[1] != there.shape[1]:
            raise OutlandError(
                f"the first set has {here.shape[1]} {kind} features and the second {there.shape[1]}: "
                "sets can be compared only if their features are the same ones"
            )
        if here.is_floating_point() != there.is_floating_point():
            raise OutlandError(f"{kind} features are real numbers in one set and categories in the other")


def _describe(union: PackedGraphs, schema: Schema | None) -> tuple[PackedGraphs, Schema]:
    """The graphs with features as models read them, checked, and their schema with the side as the label."""
    node, edge, union = infer_features(union)
    if schema is not None and schema.node.width == node.width:
        # An embedded or perturbed feature is real, whatever it was before.
        node = schema.node if (schema.node.vocabulary is None) == (node.vocabulary is None) else node
        edge = schema.edge if edge is not None and schema.edge is not None else edge
    pair_schema = Schema(node, Task("multiclass", 2, "accuracy"), edge)
    Splits(union, dict.fromkeys(("train", "val", "test"), torch.arange(len(union))), pair_schema).check()
    return union, pair_schema


def _task(labels: list[Tensor], schema: Schema | None, use: bool) -> tuple[Task | None, list[str]]:
    """The task of the labels, and notes; None where they are not to be used, or cannot be."""
    if not use:
        return None, []
    unlabelled = [bool(y.is_floating_point() and y.isnan().all()) for y in labels]
    if any(unlabelled):
        return None, [] if all(unlabelled) else ["only one of the sets has labels: they are not used"]
    if schema is not None:
        return schema.task, []
    first, second = labels
    if first.is_floating_point() != second.is_floating_point() or first.shape[1:] != second.shape[1:]:
        return None, ["the labels of the two sets are of different kinds: they are not used"]
    return infer_task(torch.cat(labels).cpu())[0], []


def _classes(labels: list[Tensor], task: Task) -> Tensor:
    """The class of each graph `[G]`: by the first of several binary labels, by quartile of a regression target."""
    if task.kind == "multiclass":
        return torch.cat([y.argmax(1) if y.dim() == 2 and y.shape[1] > 1 else y.reshape(-1).long() for y in labels])
    values = torch.cat([y.reshape(len(y), -1)[:, 0].double() for y in labels])
    if task.kind == "binary":
        classes = (values >= 0.5).long()
    else:
        cuts = values[~values.isnan()].quantile(torch.linspace(0, 1, _BINS + 1, dtype=torch.double)[1:-1])
        classes = torch.bucketize(values, cuts, right=True)
    return torch.where(values.isnan(), -1, classes)
