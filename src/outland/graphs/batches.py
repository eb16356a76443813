"""Walks through a set of graphs batch by batch, in an order that depends on seed and epoch alone."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs.batch import Gatherer, GraphBatch, Shape
from outland.graphs.packed import PackedGraphs

Layout = Literal["exact", "padded"]


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
        layout: Layout = "exact",
    ) -> None:
        if size < 1:
            raise OutlandError(f"a batch needs at least one graph, not {size}")
        if balance and graphs.environment is None:
            raise OutlandError("balanced batches need an environment for each graph, and these graphs have none")
        self.graphs, self.index, self.size = graphs, index.cpu(), size
        self.shuffle, self.balance, self.seed, self.layout = shuffle, balance, seed, layout
        self._gatherer = Gatherer(graphs)
        self._environment: Tensor | None = None
        if balance and graphs.environment is not None:
            self._environment = graphs.environment.cpu()[self.index]

    def __len__(self) -> int:
        return math.ceil(len(self.index) / self.size)

    def __iter__(self) -> Iterator[GraphBatch]:
        return self.epoch(0)

    def epoch(self, number: int) -> Iterator[GraphBatch]:
        """The batches of one epoch."""
        order = self.index[self._order(number)]
        on_device = order.to(self.graphs.device)
        nodes = self._totals(self.graphs.node_counts[order])
        edges = self._totals(self.graphs.edge_counts[order])
        for here, num_nodes, num_edges in zip(on_device.split(self.size), nodes, edges, strict=True):
            if self.layout == "exact":
                yield self._gatherer.exact(here, num_nodes, num_edges)
            else:
                shape = Shape(self.size, round_up(num_nodes + 1), round_up(num_edges))
                yield self._gatherer.padded(here, shape)

    def _totals(self, counts: Tensor) -> list[int]:
        return [int(part.sum()) for part in counts.split(self.size)]

    def _order(self, epoch: int) -> Tensor:
        random = np.random.default_rng((self.seed, epoch))
        if self._environment is not None:
            return self._balanced(random, self._environment)
        if self.shuffle:
            return torch.from_numpy(random.permutation(len(self.index)))
        return torch.arange(len(self.index))

    def _balanced(self, random: np.random.Generator, environment: Tensor) -> Tensor:
        """Deal each batch's places to the environments in turn; each environment is a shuffled, endless deck."""
        present = environment.unique()
        total = len(self.index)
        place = torch.arange(total)
        dealt = (place % self.size + place // self.size) % len(present)
        order = torch.empty(total, dtype=torch.long)
        for turn, name in enumerate(present):
            members = (environment == name).nonzero().flatten().numpy()
            wanted = int((dealt == turn).sum())
            decks = [random.permutation(members) for _ in range(math.ceil(wanted / len(members)))]
            order[dealt == turn] = torch.from_numpy(np.concatenate(decks)[:wanted]) if decks else order[:0]
        return order


def round_up(rows: int) -> int:
    """The next size on a ladder whose steps are at most an eighth: few shapes, little padding.

    >>> [round_up(n) for n in (1, 9, 100, 1000)]
    [8, 16, 104, 1024]
    """
    step = max(8, 1 << max(0, rows.bit_length() - 4))
    return -(-rows // step) * step
