"""A set of graphs divided into parts: training, validation, test."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs.packed import PackedGraphs
from outland.graphs.schema import Features, Schema

_BLOCK = 1 << 18  # rows that are checked at once
PARTS = ("train", "id_val", "id_test", "val", "test")


@dataclass(frozen=True)
class Splits:
    """A set of graphs and the indices of each part.

    `id_val` and `id_test` have the distribution of `train`; `val` and `test` are beyond the shift. Parts that a dataset
    does not have are absent.

    Args:
        graphs: all graphs, of all parts.
        parts: indices of each part's graphs.
        schema: what the tensors mean.
        source: where the set came from, as plain values.
    """

    graphs: PackedGraphs
    parts: Mapping[str, Tensor]
    schema: Schema
    source: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, part: str) -> Tensor:
        return self.parts[part]

    def __contains__(self, part: object) -> bool:
        return part in self.parts

    def to(self, device: torch.device | str) -> "Splits":
        """The same parts with the graphs on a device."""
        return replace(self, graphs=self.graphs.to(device))

    def part(self, name: str) -> PackedGraphs:
        """The graphs of one part."""
        return self.graphs.select(self.parts[name])

    def checksum(self) -> str:
        """SHA-256 of all tensors and parts, in hex."""
        tensors = {**self.graphs.tensors(), **{f"parts.{name}": index for name, index in self.parts.items()}}
        total = sha256()
        for name, tensor in sorted(tensors.items()):
            total.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return total.hexdigest()

    def limit(self, count: int, seed: int = 0) -> "Splits":
        """At most `count` graphs a part, drawn without replacement."""
        generator = torch.Generator().manual_seed(seed)
        parts = {
            name: index[torch.randperm(len(index), generator=generator)[:count].sort().values]
            for name, index in self.parts.items()
        }
        return replace(self, parts=parts, source={**self.source, "limit": count})

    def check(self) -> "Splits":
        """Refuse tensors that do not fit the schema, naming the graph; return self."""
        for name in ("train", "val", "test"):
            if len(self.parts.get(name, ())) == 0:
                raise OutlandError(f"the part '{name}' has no graphs")
        graphs = self.graphs
        for name, index in self.parts.items():
            if index.dim() != 1 or index.is_floating_point():
                raise OutlandError(f"the part '{name}' must be a list of whole numbers")
            if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(graphs):
                raise OutlandError(f"the part '{name}' names a graph beyond the {len(graphs)} there are")
        if (graphs.node_counts == 0).any():
            raise OutlandError(f"graph {int((graphs.node_counts == 0).nonzero()[0])} has no nodes")
        graphs.check_edges()
        if (self.schema.edge is None) != (graphs.edge_attr is None):
            raise OutlandError("the schema and the graphs disagree on whether edges have features")
        _check_features(graphs.x, graphs.node_counts, self.schema.node, "node")
        if self.schema.edge is not None and graphs.edge_attr is not None:
            _check_features(graphs.edge_attr, graphs.edge_counts, self.schema.edge, "edge")
        self._check_labels()
        self._check_environments()
        return self

    def _check_environments(self) -> None:
        environment, train = self.graphs.environment, self.parts["train"]
        if environment is None or self.schema.environments == 0:
            return
        bad = (environment[train] < 0) | (environment[train] >= self.schema.environments)
        if bad.any():
            graph = int(train[bad][0])
            raise OutlandError(
                f"training graph {graph} has the environment {int(environment[graph])}; "
                f"the schema has {self.schema.environments}"
            )

    def _check_labels(self) -> None:
        y, task = self.graphs.y, self.schema.task
        if task.kind == "multiclass" and (y.is_floating_point() or y.dim() != 1):
            raise OutlandError("classes must be whole numbers, one a graph")
        if task.kind == "multiclass":
            bad, expected = (y < 0) | (y >= task.outputs), f"a class from 0 to {task.outputs - 1}"
        elif task.kind == "binary":
            bad, expected = ~((y == 0) | (y == 1) | y.isnan()).reshape(len(y), -1).all(1), "0, 1 or NaN (unknown)"
        else:
            bad, expected = y.isinf().reshape(len(y), -1).any(1), "a finite number or NaN (unknown)"
        if bad.any():
            graph = int(bad.nonzero()[0])
            raise OutlandError(f"graph {graph} has the label {y[graph].tolist()}; it must be {expected}")


def _check_features(values: Tensor, counts: Tensor, features: Features, owner: str) -> None:
    if values.shape[1] != features.width:
        raise OutlandError(f"{owner}s have {values.shape[1]} features, the schema says {features.width}")
    first = 0
    for block in values.split(_BLOCK):
        if features.vocabulary is None:
            bad, problem = ~block.isfinite().all(1), "NaN or infinite"
        else:
            sizes = torch.tensor(features.vocabulary, device=values.device)
            bad, problem = ((block < 0) | (block >= sizes)).any(1), "outside the vocabulary"
        if not bad.any():
            first += len(block)
            continue
        row = first + int(bad.nonzero()[0])
        graph = int(torch.searchsorted(counts.cumsum(0), torch.tensor(row), right=True))
        within = row - int(counts[:graph].sum())
        raise OutlandError(f"graph {graph}, {owner} {within}: a feature is {problem}: {values[row].tolist()}")
