"""Splits of a user's PyG graphs: `Data` objects, checked, packed and split, with features and task inferred."""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from outland.errors import OutlandError, unknown
from outland.graphs import PARTS, Features, PackedGraphs, Schema, Splits, Task
from outland.tables.splitting import Fractions, Parts, split_at, training_first

if TYPE_CHECKING:
    from torch_geometric.data import Data

Split = str | Mapping[str, Sequence[int] | Tensor]
_KINDS = {"random": "none", "size": "covariate"}
_MAX_CATEGORIES = 1_000_000


def splits_from_data_list(
    graphs: Iterable["Data"],
    *,
    split: Split = "random",
    task: Task | None = None,
    environments: Sequence[Any] | Tensor | None = None,
    fractions: Fractions = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> Splits:
    """The splits of PyG graphs, with their schema inferred.

    Features of whole numbers are categories, one column each, from 0 to the largest found; features of real numbers
    are taken as they are. Graphs without `x` get one constant feature, 1, for each of their `num_nodes`. A label that
    is one whole number is a class; if all labels are 0.0, 1.0 or NaN (unknown), they are yes/no questions; other
    labels are numbers to predict. The graphs themselves are not changed.

    Args:
        graphs: a list of `Data`, or a PyG dataset.
        split: `random`; `size`, to train on the largest graphs and test on the smallest; or the indices of each part's
            graphs by its name (`train`, `val`, `test`, and perhaps `id_val`, `id_test`).
        task: what is predicted; by default inferred from the labels.
        environments: the environment of each graph, a number or a name; by default `environment` of the graphs, if
            they have it. Those of the training part are numbered first.
        fractions: shares of `train`, `val` and `test`, where the parts are not given.
        seed: of the random split.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> ring = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    >>> graphs = [Data(x=torch.rand(3, 4), edge_index=ring, y=torch.tensor([i % 2])) for i in range(20)]
    >>> splits = splits_from_data_list(graphs)
    >>> {name: len(index) for name, index in splits.parts.items()}
    {'train': 16, 'val': 2, 'test': 2}
    >>> splits.schema.node, splits.schema.task.kind, splits.schema.task.outputs
    (Features(width=4, vocabulary=None, version=''), 'multiclass', 2)
    """
    packed = PackedGraphs.from_data_list(validate_data_list(graphs, environments is None))
    parts = _parts(packed.node_counts, split, fractions, seed)
    task, y = infer_task(packed.y, task)
    environment, environment_count = _environments(packed, environments, parts["train"])
    node, edge, packed = infer_features(packed)
    packed = replace(packed, y=y, environment=environment)
    domain = split if isinstance(split, str) else "given"
    source = {"dataset": "own", "domain": domain, "kind": _KINDS.get(domain, "unknown"), "seed": seed}
    return Splits(packed, parts, Schema(node, task, edge, environment_count), source).check()


def validate_data_list(graphs: Iterable["Data"], with_environment: bool) -> list["Data"]:
    """Copies of the graphs on the CPU, with a constant node feature where there is none; refuse those that differ."""
    from torch_geometric.data import Data

    checked: list[Data] = []
    for position, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            raise OutlandError(f"graph {position} is a {type(graph).__name__}, not a PyG Data")
        graph = copy.copy(graph).cpu()
        if not with_environment:
            graph.environment = None
        if checked and (graph.x is None) != (checked[0].x is None):
            without = position if graph.x is None else 0
            raise OutlandError(f"graph {without} has no x, though others do")
        checked.append(graph)
    for position, graph in enumerate(checked):
        if graph.x is None:
            if graph.num_nodes is None:
                raise OutlandError(f"graph {position} has neither x nor num_nodes nor edge_index")
            graph.x = torch.ones(int(graph.num_nodes), 1)
        if not len(graph.x):
            raise OutlandError(f"graph {position} has no nodes: leave it out")
        _check_shapes(graph, checked[0], position)
        _check_numbers(graph, position)
    return checked


def _check_shapes(graph: "Data", first: "Data", position: int) -> None:
    """Refuse edges and features of the wrong shape; packing refuses missing ones."""
    edges = graph.edge_index
    if edges is None:
        return
    if not isinstance(edges, Tensor) or edges.dim() != 2 or len(edges) != 2 or edges.is_floating_point():
        raise OutlandError(
            f"graph {position}: edge_index must be [2, edges] of whole numbers, not {_shape_text(edges)}"
        )
    if edges.numel() and int(edges.min()) < 0:
        raise OutlandError(f"graph {position} has an edge to node {int(edges.min())}")
    rows = {"x": len(graph.x), "node_truth": len(graph.x), "edge_attr": edges.shape[1], "edge_truth": edges.shape[1]}
    for name, count in rows.items():
        values, expected = getattr(graph, name, None), getattr(first, name, None)
        if values is None:
            continue
        if not isinstance(values, Tensor) or values.dim() not in (1, 2) or len(values) != count:
            raise OutlandError(
                f"graph {position}: {name} must have {count} rows of features, not {_shape_text(values)}"
            )
        if expected is None:
            continue  # packing names the graph that lacks it
        if (width := _width(values)) != _width(expected):
            raise OutlandError(f"graph {position} has {width} columns of {name}, graph 0 has {_width(expected)}")
        if values.is_floating_point() != expected.is_floating_point():
            raise OutlandError(f"{name} is real in one of graph 0 and graph {position}, and whole in the other")
        if name in ("x", "edge_attr") and not values.is_floating_point() and values.numel() and int(values.min()) < 0:
            owner, row = "node" if name == "x" else "edge", int(values.reshape(count, -1).amin(1).argmin())
            raise OutlandError(
                f"graph {position}, {owner} {row}: the category {int(values.min())} is outside the vocabulary, which "
                "begins at 0; make the features real numbers (.float()) if they are amounts"
            )


def _shape_text(values: Any) -> str:
    if not isinstance(values, Tensor):
        return type(values).__name__
    return f"{list(values.shape)} of {str(values.dtype).removeprefix('torch.')}"


def _width(values: Tensor) -> int:
    return values.shape[1] if values.dim() == 2 else 1


def _check_numbers(graph: "Data", position: int) -> None:
    """Make tensors of label and environment; refuse what is no number."""
    label, environment = graph.y, getattr(graph, "environment", None)
    try:
        if label is not None:
            graph.y = torch.as_tensor(label)
    except (TypeError, ValueError, RuntimeError):
        raise OutlandError(f"graph {position}: the label {label!r} is not a number") from None
    if environment is not None:
        number = environment.item() if isinstance(environment, Tensor) and environment.numel() == 1 else environment
        if not isinstance(number, Integral):
            raise OutlandError(f"graph {position}: environment must be one whole number, not {environment!r}")
        graph.environment = torch.tensor([int(number)])


def _parts(sizes: Tensor, split: Split, fractions: Fractions, seed: int) -> Parts:
    if not isinstance(split, str):
        parts = _given_parts(split, len(sizes))
    else:
        if split not in _KINDS:
            raise unknown("split", split, _KINDS)
        if len(fractions) != 3 or min(fractions) <= 0 or not math.isclose(sum(fractions), 1, abs_tol=1e-6):
            raise OutlandError(f"fractions must be three positive numbers that add up to 1, not {fractions}")
        if split == "size":
            order = sizes.argsort(descending=True, stable=True)
        else:
            order = torch.from_numpy(np.random.default_rng(seed).permutation(len(sizes)))
        parts = split_at(order, round(fractions[0] * len(order)), round((fractions[0] + fractions[1]) * len(order)))
    for name in ("train", "val", "test", *parts):
        if len(parts.get(name, ())) == 0:
            raise OutlandError(f"the part '{name}' has no graphs")
    return parts


def _given_parts(split: Mapping[str, Sequence[int] | Tensor], total: int) -> Parts:
    """The parts whose indices the user gives: each from 0 to `total`, and none twice."""
    parts: Parts = {}
    part_of: dict[int, str] = {}
    for name, given in split.items():
        if name not in PARTS:
            raise unknown("part", name, PARTS)
        indices = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
        if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
            raise OutlandError(f"the part '{name}' must be a list of whole numbers, the indices of its graphs")
        for index in indices.tolist():
            if not 0 <= index < total:
                raise OutlandError(f"the part '{name}' names graph {index}; there are graphs 0 to {total - 1}")
            if index in part_of:
                where = f"'{part_of[index]}' and '{name}'" if part_of[index] != name else f"'{name}' twice"
                raise OutlandError(f"graph {index} is in {where}; a graph is in one part, once")
            part_of[index] = name
        parts[name] = torch.from_numpy(indices.astype(np.int64))
    return parts


def infer_task(y: Tensor, task: Task | None = None) -> tuple[Task, Tensor]:
    """The task, inferred from the labels if it is not given, and the labels in the type and shape it asks for."""
    if task is None and y.dim() == 1:
        if int(y.max()) >= _MAX_CATEGORIES:
            raise OutlandError(
                f"graph {int(y.argmax())} has the label {int(y.max())}: one whole number is taken as a class; "
                "make the labels real numbers (.float()) if they are amounts"
            )
        return Task("multiclass", max(int(y.max()) + 1, 2), "accuracy"), y
    if task is None:
        if bool(y.isnan().all()):
            raise OutlandError("no graph has a label: all are NaN")
        yes_no = bool(((y == 0) | (y == 1) | y.isnan()).all())
        task = Task("binary", y.shape[1], "rocauc") if yes_no else Task("regression", y.shape[1], "rmse")
    columns = y.reshape(len(y), -1)
    expected = 1 if task.kind == "multiclass" else task.outputs
    if columns.shape[1] != expected:
        raise OutlandError(f"the graphs have {columns.shape[1]} labels each, the task asks for {expected}")
    if task.kind != "multiclass":
        return task, columns.float()
    fraction = columns[:, 0] != columns[:, 0].long()
    if fraction.any():
        graph = int(fraction.nonzero()[0])
        raise OutlandError(f"graph {graph} has the label {columns[graph, 0].item()}; a class is a whole number")
    return task, columns[:, 0].long()


def _environments(
    graphs: PackedGraphs, given: Sequence[Any] | Tensor | None, train: Tensor
) -> tuple[Tensor | None, int]:
    """Environment of each graph, those of the training part numbered from 0, and how many of these there are."""
    environments = graphs.environment if given is None else given
    if environments is None:
        return None, 0
    values = environments.tolist() if isinstance(environments, Tensor | np.ndarray) else list(environments)
    if len(values) != len(graphs):
        raise OutlandError(f"there are {len(values)} environments for {len(graphs)} graphs")
    codes = {value: code for code, value in enumerate(sorted(set(values), key=_numbers_first))}
    environment = training_first(torch.tensor([codes[value] for value in values]), train)
    return environment, len(environment[train].unique())


def _numbers_first(value: Any) -> tuple[bool, Any]:
    """Sort key: numbers in their order, then names in theirs."""
    is_name = not isinstance(value, int | float)
    return is_name, str(value) if is_name else value


def infer_features(graphs: PackedGraphs) -> tuple[Features, Features | None, PackedGraphs]:
    """Node features, edge features (None without any), and the graphs with both in the types that models read."""
    node, x = _infer(graphs.x, "node")
    edge, edge_attr = (None, None) if graphs.edge_attr is None else _infer(graphs.edge_attr, "edge")
    return node, edge, replace(graphs, x=x, edge_attr=edge_attr)


def _infer(values: Tensor, owner: str) -> tuple[Features, Tensor]:
    width = values.shape[1]
    if values.is_floating_point():
        return Features(width), values.float()
    values = values.long()
    maxima = values.amax(0).tolist() if len(values) else [0] * width
    for column, maximum in enumerate(maxima):
        if maximum >= _MAX_CATEGORIES:
            raise OutlandError(
                f"{owner} feature {column} goes up to {maximum}: whole numbers are taken as categories; "
                "make the features real numbers (.float()) if they are amounts"
            )
    return Features(width, tuple(max(maximum, 0) + 1 for maximum in maxima)), values
