"""Walks through a set of graphs batch by batch, in an order that depends on seed and epoch alone."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland import ops
from outland.errors import OutlandError
from outland.graphs.batch import GraphBatch
from outland.graphs.packed import PackedGraphs
from outland.ops import BatchShape, CollateSource

Layout = Literal["exact", "padded"]
MOST_BATCHES, _MOST_ROWS, _WIDE = 64, 500_000, 64  # collated together
_SMALL, _SPREAD = 4096, 1.03  # nodes of small batches, and how far batches differ little


class Gatherer:
    """Cuts batches out of a set of graphs by index, on the device the set lives on.

    No graph that is asked for has more nodes than `most_nodes`; None if no graph of the set has more than the largest.
    """

    def __init__(self, graphs: PackedGraphs, most_nodes: int | None = None) -> None:
        self.graphs = graphs
        counts = graphs.node_counts
        self.most_nodes = int(counts.max()) if most_nodes is None and len(counts) else most_nodes
        self.source = CollateSource(
            x=graphs.x,
            edge_index=graphs.edge_index,
            reverse=graphs.reverse,
            edge_attr=graphs.edge_attr,
            y=graphs.y,
            environment=graphs.environment,
            node_counts=graphs.node_counts.to(graphs.device),
            edge_counts=graphs.edge_counts.to(graphs.device),
            node_offsets=graphs.node_offsets.to(graphs.device),
            edge_offsets=graphs.edge_offsets.to(graphs.device),
            out_degrees=graphs.out_degrees,
            in_order=all(graphs.edge_order),
            descriptors=graphs.extra.get("descriptors"),
        )

    def exact(self, index: Tensor, nodes: int, edges: int) -> GraphBatch:
        """The graphs at `index` (on the device), which have so many nodes and edges."""
        return GraphBatch(**ops.collate(index, self.source, nodes, edges), most_nodes=self.most_nodes)

    def exact_each(self, index: Tensor, shapes: list[BatchShape]) -> Iterator[GraphBatch]:
        """The graphs at `index` as exact batches of these shapes, one after another."""
        return (
            GraphBatch(**fields, most_nodes=self.most_nodes) for fields in ops.collate_each(index, self.source, shapes)
        )

    def padded(self, index: Tensor, shape: BatchShape) -> GraphBatch:
        """The graphs at `index`, filled up to `shape`, which must leave room for one padding node.

        `index` may have its own padding: an index below 0 is no graph.
        """
        if len(index) < shape.graphs:
            index = torch.cat([index, index.new_full((shape.graphs - len(index),), -1)])
        fields = ops.collate_padded(index, self.source, shape.nodes, shape.edges)
        return GraphBatch(**fields, most_nodes=self.most_nodes)


class Batches:
    """Batches of the graphs at `index`.

    The order of an epoch is a pure function of `seed` and the epoch's number: a resumed run needs no state, and
    nothing else that draws random numbers can disturb it.

    Args:
        graphs: the set, on the device where the batches are wanted.
        index: the graphs to walk through.
        size: graphs a batch; the last one may have fewer.
        shuffle: a new order each epoch; else the order of `index`.
        balance: every batch holds the same number of graphs of each environment (give or take one); a small
            environment is walked through more than once an epoch.
        weight: of each graph of the set `[G]`; an epoch then draws as many graphs as `index` has, each as often as its
            weight says on average over epochs.
        layout: `exact`, or `padded` to one of a few shapes.
    """

    def __init__(
        self,
        graphs: PackedGraphs,
        index: Tensor,
        size: int,
        *,
        shuffle: bool = False,
        balance: bool = False,
        seed: int = 0,
        weight: Tensor | None = None,
        layout: Layout = "exact",
    ) -> None:
        if size < 1:
            raise OutlandError(f"a batch needs at least one graph, not {size}")
        if balance and graphs.environment is None:
            raise OutlandError("balanced batches need an environment for each graph, and these graphs have none")
        if balance and weight is not None:
            raise OutlandError("balanced batches draw environments alike and take no weights: choose one of the two")
        self.graphs, self.index, self.size = graphs, index.cpu(), size
        self._weight = None if weight is None else weight.cpu()[self.index].double().numpy()
        self.shuffle, self.balance, self.seed, self.layout = shuffle, balance, seed, layout
        most = int(graphs.node_counts[self.index].max()) if len(self.index) else 0
        self.gatherer = Gatherer(graphs, most)
        self._environment: Tensor | None = None
        if balance and graphs.environment is not None:
            self._environment = graphs.environment.cpu()[self.index]

    def __len__(self) -> int:
        return math.ceil(len(self.index) / self.size)

    def __iter__(self) -> Iterator[GraphBatch]:
        return self.epoch(0)

    def epoch(self, number: int) -> Iterator[GraphBatch]:
        """The batches of one epoch."""
        plan = self.plan(number)
        index = plan.index.to(self.graphs.device)
        if self.layout == "padded":
            for row, nodes, edges in zip(index, plan.nodes, plan.edges, strict=True):
                yield self.gatherer.padded(row, self.shapes.holding(nodes, edges))
            return
        flat = index.flatten()[: sum(plan.graphs)]
        shapes = [BatchShape(*sizes) for sizes in zip(plan.graphs, plan.nodes, plan.edges, strict=True)]
        done = 0
        for block in _blocks(shapes, self.graphs.x[:1].nbytes):
            graphs = sum(shape.graphs for shape in block)
            yield from self.gatherer.exact_each(flat[done : done + graphs], block)
            done += graphs

    def plan(self, number: int) -> "EpochPlan":
        """What the batches of one epoch will hold, without collating any."""
        order = self.index.index_select(0, self._order(number))
        steps = len(self)
        index = order.new_full((steps * self.size,), -1)
        index[: len(order)] = order[: len(index)]
        return self.plan_of(index.reshape(steps, self.size))

    def plan_of(self, index: Tensor) -> "EpochPlan":
        """What batches of these graphs `[steps, size]` hold; -1 is no graph."""
        rows = index.flatten() % (len(self.graphs) + 1)  # -1 takes the last row
        graphs, nodes, edges = self._counts.index_select(0, rows).reshape(*index.shape, 3).sum(1).T.tolist()
        return EpochPlan(index, graphs, nodes, edges)

    @cached_property
    def _counts(self) -> Tensor:
        """Of each graph 1, its nodes and its edges, and no graph at the end `[G + 1, 3]`."""
        nodes, edges = self.graphs.node_counts, self.graphs.edge_counts
        return torch.cat([torch.stack([torch.ones_like(nodes), nodes, edges], 1), nodes.new_zeros(1, 3)])

    @cached_property
    def shapes(self) -> "ShapeLadder":
        """The shapes that batches are padded to, chosen by what a few epochs would hold."""
        plans = [self.plan(number) for number in range(4)]
        sizes = [size for plan in plans for size in zip(plan.nodes, plan.edges, strict=True)]
        return ShapeLadder.covering(self.size, sizes)

    def _order(self, epoch: int) -> Tensor:
        generator = np.random.default_rng((self.seed, epoch))
        if self._environment is not None:
            return self._balanced(generator, self._environment)
        if self._weight is not None:
            return torch.from_numpy(generator.permutation(_systematic_sample(self._weight, generator)))
        if self.shuffle:
            return torch.from_numpy(generator.permutation(len(self.index)))
        return torch.arange(len(self.index))

    def _balanced(self, generator: np.random.Generator, environment: Tensor) -> Tensor:
        """Positions of each batch go to the environments in turn; each environment is shuffled again and again."""
        present = environment.unique()
        total = len(self.index)
        position = torch.arange(total)
        turns = (position % self.size + position // self.size) % len(present)
        order = torch.empty(total, dtype=torch.long)
        for turn, name in enumerate(present):
            members = (environment == name).nonzero().flatten().numpy()
            count = int((turns == turn).sum())
            passes = [generator.permutation(members) for _ in range(math.ceil(count / len(members)))]
            order[turns == turn] = torch.from_numpy(np.concatenate(passes)[:count]) if passes else order[:0]
        return order


def _systematic_sample(weight: npt.NDArray[np.float64], generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """As many positions as there are weights: one of weight w comes n·w/Σw times, rounded up or down at random."""
    steps = (np.arange(len(weight)) + generator.random()) / len(weight)
    total = np.cumsum(weight)
    return np.asarray(np.minimum(np.searchsorted(total, steps * total[-1], side="right"), len(weight) - 1))


def _blocks(shapes: list[BatchShape], width: int) -> Iterator[list[BatchShape]]:
    """Batches to be collated together: several, but not too many rows; a wide node, in bytes, counts as several."""
    block: list[BatchShape] = []
    rows = 0
    for shape in shapes:
        added = shape.nodes * max(1, width // _WIDE) + shape.edges
        if block and (len(block) == MOST_BATCHES or rows + added > _MOST_ROWS):
            yield block
            block, rows = [], 0
        block.append(shape)
        rows += added
    if block:
        yield block


@dataclass(frozen=True)
class EpochPlan:
    """The graphs of each batch of an epoch, and how large the batches are."""

    index: Tensor  # the graphs of each batch [steps, size], -1 where a batch has fewer
    graphs: list[int]  # how many each batch has, as the next two
    nodes: list[int]
    edges: list[int]


@dataclass(frozen=True)
class ShapeLadder:
    """One shape or a few, smallest first; a batch is padded to the first that holds it.

    Few, because each is captured by itself, which takes as long as some hundred replays. One will do where batches
    differ little, and where they are small: the time of a step is then that of its launches.
    """

    ladder: list[BatchShape]

    @classmethod
    def covering(cls, graphs: int, sizes: list[tuple[int, int]]) -> "ShapeLadder":
        """Shapes for batches with so many nodes and edges: from one for the small ones to one for all."""
        nodes, edges = torch.tensor(sizes, dtype=torch.double).T
        differ_little = all(column.max() <= _SPREAD * column.median() for column in (nodes, edges))
        small = bool(nodes.max() <= _SMALL)
        shares, margin = (1.0,) if differ_little or small else (0.5, 0.9, 1.0), 1.1 if small else 1.02
        ladder = (
            BatchShape(graphs, *(round_up(math.ceil(margin * column.quantile(share))) for column in (nodes + 1, edges)))
            for share in shares
        )
        return cls(list(dict.fromkeys(ladder)))

    def holding(self, nodes: int, edges: int) -> BatchShape:
        """The smallest shape with room for so many nodes, one padding node and so many edges."""
        for shape in self.ladder:
            if nodes < shape.nodes and edges <= shape.edges:
                return shape
        # Beyond the ladder it goes on by tenths. No rung is remembered: a resumed run must meet the same shapes.
        top, factor = self.ladder[-1], 1.0
        while True:
            factor *= 1.1
            rows = (round_up(math.ceil(factor * max(size, 16))) for size in (top.nodes, top.edges))
            larger = BatchShape(top.graphs, *rows)
            if nodes < larger.nodes and edges <= larger.edges:
                return larger


def round_up(rows: int) -> int:
    """The next multiple of 16, at which memory and matrix units work best.

    >>> [round_up(rows) for rows in (0, 1, 16, 17)]
    [0, 16, 16, 32]
    """
    return -(-rows // 16) * 16
