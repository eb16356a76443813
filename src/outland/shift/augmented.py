"""What a method's augmentation makes of graphs, as sets whose distance can be measured.

"Aug-Train" of the paper is `measure_shift(augmented(method, graphs, train), originals(method, graphs, train))`, and
"Aug-Test" the same with the test graphs as the second argument.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import Batches, GraphBatch, PackedGraphs
from outland.methods import Augmented, GraphEmbeddings, Method, NodeInputs
from outland.nn import Mask
from outland.shift.weighted import WeightedGraphs

_BATCH = 128
T = TypeVar("T")


def augmented(method: Method, graphs: PackedGraphs, index: Tensor, seed: int = 0) -> WeightedGraphs:
    """One augmented copy of each of the graphs at `index`, as the method's training would meet it.

    Masks (AIA, DropEdge, EERM) become weights of nodes and edges; they act on the graphs' own features, also where the
    method applies them after some layers. FLAG's noise is added to node inputs; these are embedded first where they are
    categories. M-Mixup and GREA work on embeddings of whole graphs: such a copy is a graph of one node. G-Mixup's
    synthetic graphs are copies of none, and are as many as it made (`ratio`). Networks are in evaluation mode.

    Args:
        method: a trained model; G-Mixup's must have been prepared.
        graphs: the set.
        index: of the graphs.
        seed: of random draws.
    """
    selected = graphs.select(index)
    with evaluating(method, seed), torch.no_grad():
        batches = Batches(selected, torch.arange(len(selected)), method.augmented_together)
        return _joined(selected, [method.augment(batch) for batch in batches])


def originals(method: Method, graphs: PackedGraphs, index: Tensor) -> WeightedGraphs:
    """The graphs at `index` as they are, in the space in which the method augments, to compare its copies with."""
    selected = graphs.select(index)
    with evaluating(method, 0), torch.no_grad():
        pieces = [method.unaugmented(batch) for batch in Batches(selected, torch.arange(len(selected)), _BATCH)]
    plain = [piece for piece in pieces if piece is not None]
    return _joined(selected, plain) if plain else WeightedGraphs(selected)


def training_mask(method: Method, batch: GraphBatch) -> Mask:
    """The mask by which a method augments a batch in training."""
    mask = method.augment(batch) if method.augments else None
    if not isinstance(mask, Mask):
        raise OutlandError(f"{method.name} lays no mask on graphs to augment them")
    return mask


@contextmanager
def evaluating(method: Method, seed: int) -> Iterator[None]:
    """The method in evaluation mode, with a random generator of its own; afterwards both are as before."""
    random, training = method.random, {module: module.training for module in method.modules()}
    method.random = torch.Generator(random.device).manual_seed(seed)
    method.eval()
    try:
        yield
    finally:
        method.random = random
        for module, mode in training.items():
            module.training = mode


def _joined(graphs: PackedGraphs, pieces: Sequence[Augmented]) -> WeightedGraphs:
    """The augmented batches of a set as one set."""
    if masks := _only(Mask, pieces):
        return WeightedGraphs(
            graphs, torch.cat([mask.node for mask in masks]), torch.cat([mask.edge for mask in masks])
        )
    if inputs := _only(NodeInputs, pieces):
        return WeightedGraphs(replace(graphs, x=torch.cat([piece.x for piece in inputs])))
    if points := _only(GraphEmbeddings, pieces):
        return WeightedGraphs(
            _single_nodes(torch.cat([piece.z for piece in points]), torch.cat([piece.y for piece in points]))
        )
    synthetic = _only(PackedGraphs, pieces)[0]
    order = torch.randperm(len(synthetic), generator=torch.Generator().manual_seed(0))
    return WeightedGraphs(synthetic.select(order[: len(graphs)]))


def _only(kind: type[T], pieces: Sequence[Augmented]) -> list[T]:
    return [piece for piece in pieces if isinstance(piece, kind)]


def _single_nodes(x: Tensor, y: Tensor) -> PackedGraphs:
    """Graphs of one node, with the rows of `x` as its features."""
    count, no_edges = len(x), torch.zeros(0, dtype=torch.uint8, device=x.device)
    return PackedGraphs(
        x=x,
        edge_index=no_edges.reshape(2, 0),
        node_counts=torch.ones(count, dtype=torch.long),
        edge_counts=torch.zeros(count, dtype=torch.long),
        y=y,
        reverse=no_edges,
    )
