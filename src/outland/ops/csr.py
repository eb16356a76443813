"""How rows are grouped: edges by node, nodes and edges by graph."""

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor


class EdgeCSR(NamedTuple):
    """The edges of a batch in compressed sparse rows, one row for the node at one of their ends."""

    rowptr: Tensor  # where each node's edges begin, and the last one's end [N + 1]; edges past it are padding
    perm: Tensor | None  # the edge at each position [E]; None where edges already stand in this order
    col: Tensor  # the node at the other end of each [E]

    @classmethod
    def from_edges(cls, row: Tensor, col: Tensor, num_nodes: int, bases: Tensor | None = None) -> "EdgeCSR":
        """Group edges by `row` `[E]`, the node at this end; `col` `[E]` is the one at the other.

        `bases` `[E, 3]` are the graph, node and edge that each edge counts from, where batches stand one after another.
        """
        keys = row if bases is None else row + bases[:, 1]
        perm = keys.argsort(stable=True)
        nodes = torch.arange(num_nodes + 1, device=row.device)
        rowptr = torch.searchsorted(keys.index_select(0, perm), nodes)
        return cls(rowptr, perm if bases is None else perm - bases[:, 2], col.index_select(0, perm))

    @staticmethod
    def split(rows: list[int], edges: list[int], *grouped: "EdgeCSR") -> Iterator[Iterator["EdgeCSR"]]:
        """Cut groupings of consecutive batches, each with so many rows and edges, into those of each batch."""
        shared: dict[int, tuple[Tensor, ...]] = {}  # groupings may share a rowptr
        for csr in grouped:
            if id(csr.rowptr) not in shared:
                shared[id(csr.rowptr)] = split_ptr(csr.rowptr, rows, edges)
            perms = repeat(None) if csr.perm is None else csr.perm.split(edges)
            yield map(EdgeCSR, shared[id(csr.rowptr)], perms, csr.col.split(edges))

    def permute(self, values: Tensor) -> Tensor:
        """Edge rows `[E, ...]` in the order of this grouping."""
        return values if self.perm is None else values.index_select(0, self.perm)

    def unpermute(self, values: Tensor) -> Tensor:
        """The inverse of `permute`."""
        return values if self.perm is None else torch.empty_like(values).index_copy_(0, self.perm, values)


class Edges(NamedTuple):
    """The edges of a batch."""

    edge_index: Tensor  # source and target of each [2, E]
    incoming: EdgeCSR | None = None  # grouped by target; None where nothing is grouped
    outgoing: EdgeCSR | None = None  # grouped by source, likewise

    @property
    def is_grouped(self) -> bool:
        """Whether both groupings are at hand."""
        return self.incoming is not None and self.outgoing is not None


class Segments(NamedTuple):
    """The rows of each graph of a batch.

    `ptr` has padding as one more segment or past the last, and is None where nothing is grouped.
    """

    batch: Tensor  # graph of each row [N]
    ptr: Tensor | None  # where each graph's rows begin [B + 1]
    sizes: Tensor  # rows of each graph [B]
    padded: bool = False  # whether there are padding rows, of graph B


def split_ptr(ptr: Tensor, rows: list[int], entries: list[int]) -> tuple[Tensor, ...]:
    """Cut the pointers of consecutive batches, each with so many rows and entries, into those of each batch."""
    sizes, firsts = torch.tensor(rows), torch.tensor([0, *entries[:-1]]).cumsum(0)
    batch = torch.arange(len(rows)).repeat_interleave(sizes + 1)  # each has one pointer more than rows
    position = torch.arange(len(batch)) - batch
    pointers = ptr.index_select(0, position).sub_(firsts.index_select(0, batch))
    return torch.split(pointers, [size + 1 for size in rows])


def prefers_csr(values: Tensor) -> bool:
    """Whether a grouped sum in plain PyTorch is faster than `index_add`: on a CPU, for rows of several numbers."""
    return not values.is_cuda and values.dim() == 2 and values.shape[1] >= 4 and values.is_floating_point()


def flatten_rows(values: Tensor) -> Tensor:
    """Rows `[N, ...]` as `[N, d]`, also where there are none."""
    return values[:, None] if values.dim() == 1 else values.flatten(1)
