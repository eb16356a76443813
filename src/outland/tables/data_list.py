"""Graphs the user already has: PyG `Data` objects, split and described so that every method can train on them."""

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

if TYPE_CHECKING:
    from torch_geometric.data import Data

Split = str | Mapping[str, Sequence[int] | Tensor]
_KINDS = {"random": "none", "size": "covariate"}
_MOST_CATEGORIES = 1_000_000


def own_splits(
    graphs: Iterable["Data"],
    *,
    split: Split = "random",
    task: Task | None = None,
    environments: Sequence[Any] | Tensor | None = None,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> Splits:
    """Split PyG graphs into parts and find out what their numbers mean.

    Features of whole numbers are categories, one column each, from 0 to the largest found; features of real numbers
    are taken as they are. Graphs without `x` get one constant feature, 1, for each of their `num_nodes`. A label that
    is one whole number is a class; if all labels are 0.0, 1.0 or NaN (unknown), they are yes/no questions; other
    labels are numbers to predict. The graphs themselves are not changed.

    Args:
        graphs: a list of `Data`, or a PyG dataset.
        split: `random`; `size`, to train on the largest graphs and test on the smallest; or the places of each part's
            graphs by its name (`train`, `val`, `test` and, if wanted, `id_val`, `id_test`).
        task: what is predicted, where the labels do not tell.
        environments: the environment of each graph, a number or a name; by default `environment` of the graphs, if
            they have it. Those of the training part are numbered first.
        fractions: shares of `train`, `val` and `test`, where the parts are not given.
        seed: of the random split.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> ring = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    >>> graphs = [Data(x=torch.rand(3, 4), edge_index=ring, y=torch.tensor([i % 2])) for i in range(20)]
    >>> splits = own_splits(graphs)
    >>> {name: len(index) for name, index in splits.parts.items()}
    {'train': 16, 'val': 2, 'test': 2}
    >>> splits.schema.node, splits.schema.task
    (Features(width=4, vocabulary=None), Task(kind='multiclass', outputs=2, metric='accuracy'))
    """
    packed = PackedGraphs.from_data_list(checked_graphs(graphs, environments is None))
    parts = _parts(packed.node_counts, split, fractions, seed)
    task, y = describe_labels(packed.y, task)
    environment, number = _environments(packed, environments, parts["train"])
    node, x = describe_features(packed.x, "node")
    edge, edge_attr = (None, None) if packed.edge_attr is None else describe_features(packed.edge_attr, "edge")
    packed = replace(packed, x=x, edge_attr=edge_attr, y=y, environment=environment)
    domain = split if isinstance(split, str) else "given"
    source = {"dataset": "own", "domain": domain, "kind": _KINDS.get(domain, "unknown"), "seed": seed}
    return Splits(packed, parts, Schema(node, task, edge, number), source).check()


def checked_graphs(graphs: Iterable["Data"], with_environment: bool) -> list["Data"]:
    """Copies that fit together, on the host, with a constant node feature where there is none."""
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
    bare = bool(checked) and checked[0].x is None
    for position, graph in enumerate(checked):
        if bare:
            graph.x = torch.ones(_count_nodes(graph, position), 1)
        _check_rows(graph, checked[0], position)
        _check_facts(graph, position)
    return checked


def _count_nodes(graph: "Data", position: int) -> int:
    if graph.num_nodes is None:
        raise OutlandError(f"graph {position} has neither x nor num_nodes nor edge_index")
    return int(graph.num_nodes)


def _check_rows(graph: "Data", first: "Data", position: int) -> None:
    """Refuse edges and features of the wrong shape; what is missing is told when the graphs are packed."""
    edges = graph.edge_index
    if edges is None:
        return
    if not isinstance(edges, Tensor) or edges.dim() != 2 or len(edges) != 2 or edges.is_floating_point():
        raise OutlandError(f"graph {position}: edge_index must be [2, edges] of whole numbers, not {_form(edges)}")
    if edges.numel() and int(edges.min()) < 0:
        raise OutlandError(f"graph {position} has an edge to node {int(edges.min())}")
    rows = {"x": len(graph.x), "node_truth": len(graph.x), "edge_attr": edges.shape[1], "edge_truth": edges.shape[1]}
    for name, count in rows.items():
        values, model = getattr(graph, name, None), getattr(first, name, None)
        if values is None:
            continue
        if not isinstance(values, Tensor) or values.dim() not in (1, 2) or len(values) != count:
            raise OutlandError(f"graph {position}: {name} must have {count} rows of features, not {_form(values)}")
        if model is None:
            continue  # packing names the graph that lacks it
        if _width(values) != _width(model):
            raise OutlandError(f"graph {position} has {_width(values)} columns of {name}, graph 0 has {_width(model)}")
        if values.is_floating_point() != model.is_floating_point():
            raise OutlandError(f"{name} is real in one of graph 0 and graph {position}, and whole in the other")


def _form(values: Any) -> str:
    if not isinstance(values, Tensor):
        return type(values).__name__
    return f"{list(values.shape)} of {str(values.dtype).removeprefix('torch.')}"


def _width(values: Tensor) -> int:
    return values.shape[1] if values.dim() == 2 else 1


def _check_facts(graph: "Data", position: int) -> None:
    """Refuse a label or an environment that is no number."""
    label, environment = graph.y, getattr(graph, "environment", None)
    try:
        if label is not None:
            graph.y = torch.as_tensor(label)
    except (TypeError, ValueError, RuntimeError):
        raise OutlandError(f"graph {position}: the label {label!r} is not a number") from None
    if environment is not None:
        one = environment.item() if isinstance(environment, Tensor) and environment.numel() == 1 else environment
        if not isinstance(one, Integral):
            raise OutlandError(f"graph {position}: environment must be one whole number, not {environment!r}")
        graph.environment = torch.tensor([int(one)])


def _parts(sizes: Tensor, split: Split, fractions: Sequence[float], seed: int) -> dict[str, Tensor]:
    if not isinstance(split, str):
        parts = _given(split, len(sizes))
    else:
        if split not in _KINDS:
            raise unknown("split", split, _KINDS)
        if len(fractions) != 3 or min(fractions) <= 0 or not math.isclose(sum(fractions), 1, abs_tol=1e-6):
            raise OutlandError(f"fractions must be three positive numbers that add up to 1, not {fractions}")
        if split == "size":
            order = sizes.argsort(descending=True, stable=True)
        else:
            order = torch.from_numpy(np.random.default_rng(seed).permutation(len(sizes)))
        first, second = round(fractions[0] * len(sizes)), round((fractions[0] + fractions[1]) * len(sizes))
        parts = {"train": order[:first], "val": order[first:second], "test": order[second:]}
    for name in ("train", "val", "test", *parts):
        if len(parts.get(name, ())) == 0:
            raise OutlandError(f"the part '{name}' has no graphs")
    return parts


def _given(split: Mapping[str, Sequence[int] | Tensor], total: int) -> dict[str, Tensor]:
    """The parts as the user names them: every place is there, and used once."""
    parts: dict[str, Tensor] = {}
    taken: dict[int, str] = {}
    for name, places in split.items():
        if name not in PARTS:
            raise unknown("part", name, PARTS)
        index = np.asarray(places.cpu() if isinstance(places, Tensor) else places)
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise OutlandError(f"the part '{name}' must be a list of whole numbers, the places of its graphs")
        for place in index.tolist():
            if not 0 <= place < total:
                raise OutlandError(f"the part '{name}' names graph {place}; there are graphs 0 to {total - 1}")
            if place in taken:
                where = f"'{taken[place]}' and '{name}'" if taken[place] != name else f"'{name}' twice"
                raise OutlandError(f"graph {place} is in {where}; a graph is in one part, once")
            taken[place] = name
        parts[name] = torch.from_numpy(index.astype(np.int64))
    return parts


def describe_labels(y: Tensor, task: Task | None) -> tuple[Task, Tensor]:
    """The task, inferred if it is not given, and the labels in the form it asks for."""
    if task is None and y.dim() == 1:
        if int(y.max()) >= _MOST_CATEGORIES:
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
    """The environment of each graph, those of the training part numbered from 0, and how many of these there are."""
    found = graphs.environment if given is None else given
    if found is None:
        return None, 0
    values = found.tolist() if isinstance(found, Tensor | np.ndarray) else list(found)
    if len(values) != len(graphs):
        raise OutlandError(f"there are {len(values)} environments for {len(graphs)} graphs")
    known = sorted({values[place] for place in train.tolist()}, key=_names_last)
    others = sorted(set(values) - set(known), key=_names_last)
    numbers = {value: number for number, value in enumerate([*known, *others])}
    return torch.tensor([numbers[value] for value in values]), len(known)


def _names_last(value: Any) -> tuple[bool, Any]:
    """Numbers in their order, then names in theirs."""
    named = not isinstance(value, int | float)
    return named, str(value) if named else value


def describe_features(values: Tensor, kind: str) -> tuple[Features, Tensor]:
    """What the columns are, and the columns in the form that models read."""
    width = values.shape[1]
    if values.is_floating_point():
        return Features(width), values.float()
    values = values.long()
    tops = values.amax(0).tolist() if len(values) else [0] * width
    for column, top in enumerate(tops):
        if top >= _MOST_CATEGORIES:
            raise OutlandError(
                f"{kind} feature {column} goes up to {top}: whole numbers are taken as categories; "
                "make the features real numbers (.float()) if they are amounts"
            )
    return Features(width, tuple(max(top, 0) + 1 for top in tops)), values
