"""Scores of graphs with some of their nodes hidden, for any model."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outland.chem.partial_vectors import PartialVectors
from outland.errors import OutlandError, unknown
from outland.graphs import PackedGraphs
from outland.graphs.induced import induced_subgraphs
from outland.methods import Method
from outland.models.members import Member, Network
from outland.models.model import TrainedModel
from outland.nn.layers import FeatureEncoder

_MOST_NODES = 16_384  # evaluated at once
Hidden = tuple[int, Sequence[int]]  # a graph, and those of its nodes that are hidden


class Occlusion:
    """A model's score of graphs of which some nodes are hidden, as calibrated log-odds or in the labels' own units.

    To a network a hidden atom is the average atom of its training molecules: the atom's input is replaced by their
    mean, and its bonds stay. Nodes of other graphs, which may differ in their edges alone, are removed. Fingerprint,
    descriptors and counts, which other members read, are those of the molecule without the atom: see `PartialVectors`.

    Args:
        model: any.
        graphs: whose nodes are hidden.
        molecules: the RDKit molecules of these graphs; without them vectors stay those of whole molecules.
        target: index of the target.
        towards: the class whose log-odds are taken: by default the second of two, or the one called of several.
    """

    def __init__(
        self,
        model: TrainedModel,
        graphs: PackedGraphs,
        molecules: Sequence[Any] | None = None,
        target: int = 0,
        towards: str | None = None,
    ) -> None:
        self.model, self.graphs, self.target = model, graphs, target
        self.vectors: list[PartialVectors] = []
        if molecules is not None and any(_reads_vectors(member) for member in model.members):
            self.vectors = [PartialVectors(molecule) for molecule in molecules]
        if molecules is None and model.network is None:
            raise OutlandError(f"{model.name} reads vectors of molecules: name a table of SMILES to explain it")
        self.towards = None if towards is None else _class_index(model, towards)
        outputs = self._outputs([(graph, ()) for graph in range(len(graphs))])
        called = model.calibration.logits(outputs).argmax(1)
        self.called = called if self.towards is None else torch.full_like(called, self.towards)
        self.whole = self._score(outputs, torch.arange(len(graphs)))

    def scores(self, hidden: Sequence[Hidden]) -> Tensor:
        """The score `[C]` of each of these graphs without these nodes."""
        graphs = torch.tensor([graph for graph, _ in hidden], dtype=torch.long)
        return self._score(self._outputs(hidden), graphs)

    def _score(self, outputs: Tensor, graphs: Tensor) -> Tensor:
        task = self.model.task
        if task.kind == "regression":
            return task.in_label_units(outputs)[:, self.target]
        logits = self.model.calibration.logits(outputs)
        if task.kind == "binary":
            return logits[:, self.target] * (-1 if self.towards == 0 else 1)
        column = self.called[graphs, None]
        others = logits.scatter(1, column, -math.inf).logsumexp(1)
        return logits.gather(1, column)[:, 0] - others

    def _outputs(self, hidden: Sequence[Hidden]) -> Tensor:
        """The model's outputs `[C, outputs]`, a block of at most `_MOST_NODES` nodes at a time."""
        reference = self.graphs if self.model.reference is None else self.model.reference
        counts = self.graphs.node_counts[[graph for graph, _ in hidden]]
        with hidden_as_average(self.model, reference.x):
            blocks = [mean_outputs(self.model, self._copies(hidden[block])) for block in node_blocks(counts)]
        return torch.cat(blocks)

    def _copies(self, hidden: Sequence[Hidden]) -> PackedGraphs:
        """A copy of each graph: hidden atoms are marked, hidden nodes removed, and the vector is without them."""
        copies = self.graphs.select(torch.tensor([graph for graph, _ in hidden]))
        starts = zip(copies.node_offsets.tolist(), hidden, strict=True)
        rows = torch.tensor([start + node for start, (_, nodes) in starts for node in nodes], dtype=torch.long)
        if self.model.kind != "molecules":
            keep = torch.ones(len(copies.x), dtype=torch.bool).index_fill(0, rows, False)
            return induced_subgraphs(copies, keep)
        x = copies.x.index_fill(0, rows, _mark(copies.x.dtype))
        if not self.vectors:
            return replace(copies, x=x)
        bits = np.stack([self.vectors[graph].fingerprint(nodes) for graph, nodes in hidden])
        numbers = zip(*(self.vectors[graph].numbers(nodes) for graph, nodes in hidden), strict=True)
        arrays = dict(zip(("fingerprint", "descriptors", "counts"), (bits, *map(np.stack, numbers)), strict=True))
        vectors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return replace(copies, x=x, extra={**copies.extra, **vectors})


def node_blocks(node_counts: Tensor) -> Iterator[slice]:
    """Consecutive graphs that have at most `_MOST_NODES` nodes together, or one that has more."""
    first, nodes = 0, 0
    for last, count in enumerate(node_counts.tolist()):
        if nodes and nodes + count > _MOST_NODES:
            yield slice(first, last)
            first, nodes = last, 0
        nodes += count
    if len(node_counts):
        yield slice(first, len(node_counts))


def _reads_vectors(member: Member) -> bool:
    return not isinstance(member, Network) or member.method.backbone.descriptors


def _class_index(model: TrainedModel, name: str) -> int:
    names = [str(label) for label in model.classes]
    if not names:
        raise OutlandError("this model predicts a number: contributions are towards a higher one, without --towards")
    if name not in names:
        raise unknown("class", name, names)
    return names.index(name)


def _mark(dtype: torch.dtype) -> float:
    """The feature of hidden nodes: a value that no node has."""
    return math.nan if dtype.is_floating_point else torch.iinfo(dtype).max


@contextmanager
def hidden_as_average(model: TrainedModel, x: Tensor) -> Iterator[None]:
    """A context in which the model's networks take marked nodes for the average of the nodes `x` `[N, F]`."""
    with ExitStack() as stack:
        for member in model.members:
            if isinstance(member, Network):
                stack.enter_context(_average_inputs(member.method, x))
        yield


def mean_outputs(model: TrainedModel, graphs: PackedGraphs) -> Tensor:
    """The model's outputs of graphs `[G, outputs]`, without what else `predict` gives, in double precision."""
    return model.mean(torch.stack([member.outputs(graphs) for member in model.members], 1)).double()


@contextmanager
def _average_inputs(method: Method, x: Tensor) -> Iterator[None]:
    mark, handles = _mark(x.dtype), []
    inputs = [getattr(module, "features", None) for module in method.modules()]
    for features in dict.fromkeys(each for each in inputs if isinstance(each, FeatureEncoder)):
        with torch.inference_mode():
            average = features(x.to(next(method.parameters()).device)).mean(0)
        handles += _hooks(features, average, mark)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hooks(features: torch.nn.Module, average: Tensor, mark: float) -> list[Any]:
    marked: list[Tensor] = []

    def before(_: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        (values,) = inputs
        first = values[:, :1]
        marked.append(first.isnan() if math.isnan(mark) else first == mark)
        return (values.masked_fill(marked[-1], 0),)

    def after(_: Any, __: Any, states: Tensor) -> Tensor:
        return torch.where(marked.pop(), average.to(states.dtype), states)

    return [features.register_forward_pre_hook(before), features.register_forward_hook(after)]
