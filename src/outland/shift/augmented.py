"""What a method's augmentation makes of graphs, as sets whose distance can be measured.

"Aug-Train" of the paper is `measure_shift(augmented(method, graphs, train), originals(method, graphs, train))`, and
"Aug-Test" the same with the test graphs in the second place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import singledispatch

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import Batches, GraphBatch, PackedGraphs
from outland.methods import Method
from outland.methods.aia import AIA
from outland.methods.dropedge import DropEdge
from outland.methods.eerm import EERM
from outland.methods.flag import FLAG
from outland.methods.gmixup import GMixup
from outland.methods.grea import GREA
from outland.methods.mmixup import MMixup
from outland.methods.parts.ranking import permutation
from outland.nn import Mask
from outland.shift.weighted import WeightedGraphs

_BATCH = 128


def augmented(method: Method, graphs: PackedGraphs, index: Tensor, seed: int = 0) -> WeightedGraphs:
    """One augmented copy of each of the graphs at `index`, as the method's training would meet it.

    Masks (AIA, DropEdge, EERM) become weights of nodes and edges; they act on the graphs' own features, also where the
    method lets them act behind a front of layers. FLAG's noise is added to node inputs; these are embedded first where
    they are categories. M-Mixup and GREA work on embeddings of whole graphs: such a version is a graph of one node.
    G-Mixup's synthetic graphs are copies of none, and are as many as it made (`ratio`). Networks are in evaluation
    mode.

    Args:
        method: a trained model; G-Mixup's must have been prepared.
        graphs: the set.
        index: places of the graphs.
        seed: of random draws.
    """
    with asked(method, seed):
        return _augmented(method, graphs, index)


def originals(method: Method, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    """The graphs at `index` as they are, in the space in which the method augments, to compare its copies with."""
    with asked(method, 0), torch.no_grad():
        return _originals(method, graphs, index)


@contextmanager
def asked(method: Method, seed: int) -> Iterator[None]:
    """The method in evaluation mode, with draws that do not touch its own."""
    own, training = method.random, {part: part.training for part in method.modules()}
    method.random = torch.Generator(own.device).manual_seed(seed)
    method.eval()
    try:
        yield
    finally:
        method.random = own
        for part, was in training.items():
            part.training = was


@singledispatch
def training_mask(method: Method, batch: GraphBatch) -> Mask:
    """The mask that a method's augmentation lays on a batch in training; register your own method's here."""
    raise OutlandError(f"{method.name} lays no mask on graphs to augment them")


@training_mask.register
def _(method: DropEdge, batch: GraphBatch) -> Mask:
    return method.thinned(batch)


@training_mask.register
def _(method: AIA, batch: GraphBatch) -> Mask:
    masks = method.masks(batch)
    return masks.get("merged", masks["adversarial"])


@training_mask.register
def _(method: EERM, batch: GraphBatch) -> Mask:
    dropped = method.edits(batch, method.chances(batch))
    editor = torch.randint(dropped.shape[1], (batch.num_graphs,), generator=method.random, device=batch.x.device)
    chosen = dropped.gather(1, editor[batch.edge_batch, None]).squeeze(1)
    return Mask.on_edges((~chosen).to(next(method.parameters()).dtype), batch)


@singledispatch
def _augmented(method: Method, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    chosen = graphs.select(index)
    masks = []
    with torch.no_grad():
        for batch in _batches(chosen):
            try:
                masks.append(training_mask(method, batch))
            except OutlandError:
                raise OutlandError(f"{method.name} does not augment graphs: there is no shift to measure") from None
    return WeightedGraphs(chosen, torch.cat([mask.node for mask in masks]), torch.cat([mask.edge for mask in masks]))


@_augmented.register
def _(method: FLAG, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    chosen = graphs.select(index)
    inputs = []
    for batch in _batches(chosen):
        noise = [delta for _, delta in method.ascent(batch)][-1]
        inputs.append((method.classifier.encoder.embed(batch) + noise).detach())
    return WeightedGraphs(replace(chosen, x=torch.cat(inputs)))


@_augmented.register
def _(method: MMixup, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    chosen = graphs.select(index)
    rows, labels = [], []
    with torch.no_grad():
        for batch in _batches(chosen, 32):  # its share and order are those of a training batch
            h, share, order = method.classifier.embed(batch), method.share(batch), permutation(batch, method.random)
            rows.append(share * h + (1 - share) * h[order])
            labels.append(batch.y if share >= 0.5 else batch.y[order])
    return WeightedGraphs(_points(torch.cat(rows), torch.cat(labels)))


@_augmented.register
def _(method: GREA, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    chosen = graphs.select(index)
    rows = []
    with torch.no_grad():
        for batch in _batches(chosen):
            rationale, environment = method.split(batch, method.gate(batch))
            rows.append(rationale + environment[permutation(batch, method.random)])
    return WeightedGraphs(_points(torch.cat(rows), chosen.y))


@_augmented.register
def _(method: GMixup, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    if method.synthetic is None:
        raise OutlandError("g-mixup has made no graphs: call its prepare(graphs, train, seed) first")
    made = method.synthetic.graphs
    order = torch.randperm(len(made), generator=torch.Generator().manual_seed(0))
    return WeightedGraphs(made.select(order[: len(index)]))


@singledispatch
def _originals(method: Method, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    return WeightedGraphs(graphs.select(index))


@_originals.register
def _(method: FLAG, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    chosen = graphs.select(index)
    return WeightedGraphs(replace(chosen, x=_each(chosen, method.classifier.encoder.embed)))


@_originals.register(MMixup)
@_originals.register(GREA)
def _(method: MMixup | GREA, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    chosen = graphs.select(index)
    return WeightedGraphs(_points(_each(chosen, method.classifier.embed), chosen.y))


def _each(graphs: PackedGraphs, read: Callable[[GraphBatch], Tensor]) -> Tensor:
    return torch.cat([read(batch) for batch in _batches(graphs)])


def _batches(graphs: PackedGraphs, size: int = _BATCH) -> Batches:
    return Batches(graphs, torch.arange(len(graphs)), size)


def _points(rows: Tensor, y: Tensor) -> PackedGraphs:
    """One node a graph, with an embedding as its features."""
    count, nothing = len(rows), torch.zeros(0, dtype=torch.uint8, device=rows.device)
    return PackedGraphs(
        x=rows,
        edge_index=nothing.reshape(2, 0),
        node_counts=torch.ones(count, dtype=torch.long),
        edge_counts=torch.zeros(count, dtype=torch.long),
        y=y,
        reverse=nothing,
    )
