"""Sums over the edges at each node, as products with sparse matrices.

What edges carry is never written down edge by edge: a weighted sum of the neighbours' rows is a sparse matrix times a
dense one, its gradient to the rows is the transposed product, and its gradient to the weights is a product sampled
where there are edges. On dense graphs this is several times faster than gathering, weighing and adding up, and it adds
in the same order every time.
"""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from outland import kernels

_SUM = 0  # of the modes of an embedding bag
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")


@dataclass(frozen=True)
class Wires:
    """The edges of a batch, grouped by the node at one of their ends.

    Args:
        pointers: where each node's group begins, and the last one ends `[N + 1]`.
        edges: the edge rows, group by group `[E]`; None where they already stand so.
        nodes: the node at the other end of each `[E]`.
    """

    pointers: Tensor
    edges: Tensor | None
    nodes: Tensor

    @classmethod
    def grouped(cls, here: Tensor, there: Tensor, num_nodes: int, bases: Tensor | None = None) -> "Wires":
        """Group edges with these nodes `[E]` at this end and at the other.

        `bases` `[E, 3]` say from which graph, node and edge each edge counts, where batches stand one after another.
        """
        keys = here if bases is None else here + bases[:, 1]
        order = keys.argsort(stable=True)
        nodes = torch.arange(num_nodes + 1, device=here.device)
        pointers = torch.searchsorted(keys.index_select(0, order), nodes)
        return cls(pointers, order if bases is None else order - bases[:, 2], there.index_select(0, order))

    @staticmethod
    def apart(groups: list[int], edges: list[int], *all_wires: "Wires") -> Iterator[Iterator["Wires"]]:
        """Several wires of batches that stand one after another, with so many groups and edges each, batch by batch."""
        sizes, firsts = torch.tensor(groups), torch.tensor([0, *edges[:-1]]).cumsum(0)
        owner = torch.arange(len(groups)).repeat_interleave(sizes + 1)  # each has one pointer more than groups
        place, lengths = torch.arange(len(owner)) - owner, [size + 1 for size in groups]
        first = firsts.index_select(0, owner)
        seen: dict[int, tuple[Tensor, ...]] = {}  # what is grouped alike shares its pointers
        for wires in all_wires:
            if id(wires.pointers) not in seen:
                seen[id(wires.pointers)] = wires.pointers.index_select(0, place).sub_(first).split(lengths)
            rows = repeat(None) if wires.edges is None else wires.edges.split(edges)
            yield map(Wires, seen[id(wires.pointers)], rows, wires.nodes.split(edges))

    @property
    def groups(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """As the GPU's kernels take them."""
        return self.pointers, self.edges, self.nodes

    def ordered(self, values: Tensor) -> Tensor:
        """Rows of edges `[E, ...]`, group by group."""
        return values if self.edges is None else values.index_select(0, self.edges)

    def restored(self, values: Tensor) -> Tensor:
        """The inverse of `ordered`."""
        return values if self.edges is None else torch.empty_like(values).index_copy_(0, self.edges, values)


def weighted_sum(x: Tensor, weight: Tensor | None, incoming: Wires, outgoing: Wires) -> Tensor:
    r"""Sum of the rows at the other ends of a node's incoming edges, :math:`\sum_{j \to i} w_{ji} x_j`.

    Args:
        x: a row for each node `[N, d]`.
        weight: of each edge `[E]`; None is 1.
        incoming, outgoing: the edges by target and by source.
    """
    if kernels.fits(x):
        from outland.kernels.sparse import hear  # needs Triton

        return hear(x, weight, None, None, False, incoming.groups, outgoing.groups)
    total: Tensor = _WeightedSum.apply(x, weight, incoming, outgoing)  # type: ignore[no-untyped-call]
    return total


def heard(
    x: Tensor, eps: Tensor, weight: Tensor | None, state: Tensor | None, incoming: Wires, outgoing: Wires
) -> Tensor:
    """What nodes hear in a GIN layer, on a GPU: see `GraphBatch.hear`, which has the plain twin."""
    from outland.kernels.sparse import hear  # needs Triton

    return hear(x, weight, state, eps, True, incoming.groups, outgoing.groups)


def scatter(values: Tensor, groups: Tensor, wires: Wires) -> Tensor:
    """Sum of the rows `[E, d]` in each group, where `groups` `[E]` says the same as `wires`."""
    total: Tensor = _Scatter.apply(values, groups, wires)  # type: ignore[no-untyped-call]
    return total


def pool(values: Tensor, owner: Tensor, members: Wires, graphs: int, mean: bool = False) -> Tensor:
    """Sum, or on a GPU mean, of the rows `[N, ...]` of each of so many graphs; rows of other owners are left out."""
    if kernels.fits(values):
        from outland.kernels.sparse import pool as pooled  # needs Triton

        total = pooled(_flat(values), owner, members.pointers[: graphs + 1], mean)
        return total.reshape(graphs, *values.shape[1:])
    assert not mean, "the plain twin of a mean divides by itself"
    return scatter(values, owner, members)[:graphs]


def gather(values: Tensor, groups: Tensor, wires: Wires) -> Tensor:
    """Each row's group's row: what undoes `scatter`, and is its gradient."""
    rows: Tensor = _Gather.apply(values, groups, wires)  # type: ignore[no-untyped-call]
    return rows


def _flat(values: Tensor) -> Tensor:
    """Rows `[N, ...]` as `[N, d]`, also where there are none."""
    return values[:, None] if values.dim() == 1 else values.flatten(1)


def _sum_at(values: Tensor, wires: Wires) -> Tensor:
    if kernels.fits(values):
        from outland.kernels.sparse import gather_sum  # needs Triton

        total = gather_sum(_flat(values), wires.groups)
        return total.reshape(len(total), *values.shape[1:])
    edges = torch.arange(len(values), device=values.device) if wires.edges is None else wires.edges
    return _product(wires.pointers, edges, None, values)


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, groups: Tensor, wires: Wires) -> Tensor:
        ctx.save_for_backward(groups)
        return _sum_at(values, wires)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        return slope.index_select(0, *ctx.saved_tensors), None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, groups: Tensor, wires: Wires) -> Tensor:
        ctx.wires = wires
        return values.index_select(0, groups)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        return _sum_at(slope.contiguous(), ctx.wires), None, None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, incoming: Wires, outgoing: Wires) -> Tensor:
        ctx.save_for_backward(x if weight is not None else None, weight)
        ctx.wires = incoming, outgoing
        values = None if weight is None else incoming.ordered(weight)
        return _product(incoming.pointers, incoming.nodes, values, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        incoming, outgoing = ctx.wires
        slope = slope.contiguous()
        for_x = for_weight = None
        if ctx.needs_input_grad[0]:
            values = None if weight is None else outgoing.ordered(weight)
            for_x = _product(outgoing.pointers, outgoing.nodes, values, slope)
        if weight is not None and ctx.needs_input_grad[1]:
            for_weight = incoming.restored(_sampled(incoming, slope, x))
        return for_x, for_weight, None, None


def _product(pointers: Tensor, columns: Tensor, values: Tensor | None, dense: Tensor) -> Tensor:
    """A sparse matrix with a column for each of `dense`'s rows, times that.

    On a CPU as a sum of weighted embeddings, which is the same: MKL's sparse product fills its result with zeros and
    copies it before it adds anything, and takes twice as long or more. Every column lies before the last pointer.
    """
    wide = _widened(dense)
    values = None if values is None else values.to(wide.dtype)
    with _as_given(dense):
        if dense.is_cuda:
            values = wide.new_ones(len(columns)) if values is None else values
            shape = (len(pointers) - 1, len(dense))
            total: Tensor = torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False) @ wide
        else:
            sums, *_ = torch.embedding_bag(
                _flat(wide).detach(), columns, pointers, mode=_SUM, per_sample_weights=values, include_last_offset=True
            )
            total = sums.reshape(len(sums), *dense.shape[1:])
    return total.to(dense.dtype)


def _sampled(wires: Wires, here: Tensor, there: Tensor) -> Tensor:
    """For each edge the product of its two ends' rows, group by group `[E]`."""
    wide, other = _widened(here), _widened(there)
    pattern = torch.sparse_csr_tensor(
        wires.pointers, wires.nodes, wide.new_zeros(len(wires.nodes)), (len(here), len(there)), check_invariants=False
    )
    with _as_given(here):
        found: Tensor = torch.sparse.sampled_addmm(pattern, wide, other.to(wide.dtype).T, beta=0.0).values()
    return found.to(here.dtype)


def _widened(values: Tensor) -> Tensor:
    """In single precision if they are in half: sparse products know nothing else."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def _as_given(values: Tensor) -> AbstractContextManager[object]:
    """Here nothing is rounded to half precision, as autocast would do."""
    kind = values.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
