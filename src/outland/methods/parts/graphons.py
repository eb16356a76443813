"""Graphons: what the graphs of one class have in common, and new graphs drawn from it. All on the host, by seed."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from outland.graphs import Features, GraphBatch, PackedGraphs, Task
from outland.graphs.packed import reverse_edges, smallest
from outland.methods.parts.ranking import ranks

_TRIES = 100


@dataclass(frozen=True)
class Graphon:
    """A class of graphs as one random graph on n places, nodes of high degree first.

    Args:
        edges: chance of an edge between two places, symmetric `[n, n]`.
        nodes: node features of each place: means, or the frequencies of every category, column after column `[n, C]`.
        label: mean label of the class, NaN where none is known `[L]`.
        bonds: edge features met in the class `[*, F_e]`; a new edge takes one of these rows.
    """

    edges: Tensor
    nodes: Tensor
    label: Tensor
    bonds: Tensor | None = None


def class_labels(y: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """The class of each graph `[G]`, -1 for none, and its label as numbers that can be averaged `[G, L]`.

    Yes/no questions: the answer to the first; graphs without one are left out. Regression: the first number is above
    the median, or not.
    """
    if task.kind == "multiclass":
        return y, functional.one_hot(y, task.outputs).double()
    label = y.double().reshape(len(y), -1)
    first = label[:, 0]
    high = first > (0.5 if task.kind == "binary" else first.nanmedian())
    return torch.where(first.isnan(), -1, high.long()), label


def neighbours(graphs: PackedGraphs) -> tuple[Tensor, Tensor]:
    """Rows of every two joined nodes, in both orders: parallel edges once, self-loops not at all."""
    total = len(graphs.x)
    one, other = graphs.edge_index.long() + graphs.node_offsets.repeat_interleave(graphs.edge_counts)
    keys = torch.cat([one * total + other, other * total + one])[(one != other).repeat(2)].unique()
    return keys // max(total, 1), keys % max(total, 1)


def usvt(mean: Tensor, threshold: float) -> Tensor:
    """Universal singular value thresholding: drop the values below `threshold`·√n, clip to [0, 1]."""
    left, values, right = torch.linalg.svd(mean)
    kept = torch.where(values < threshold * len(mean) ** 0.5, 0, values)
    rebuilt: Tensor = (left * kept) @ right
    return ((rebuilt + rebuilt.T) / 2).clamp(0, 1)


def fit_graphon(graphs: PackedGraphs, label: Tensor, size: int, threshold: float, features: Features) -> Graphon:
    """Align the graphs of one class by decreasing degree, ties in node order, and average them.

    Args:
        graphs: the class, on the host.
        label: of the class.
        size: n; larger graphs are cropped and smaller ones filled up with nothing.
        threshold: of `usvt`.
        features: what the node features are.
    """
    source, target = neighbours(graphs)
    degree = torch.bincount(source, minlength=len(graphs.x))
    owner = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts)
    place = ranks(-degree, owner, len(graphs))
    row, column = place[source], place[target]
    inside = (row < size) & (column < size)
    mean = _counts(row[inside] * size + column[inside], size * size).reshape(size, size) / len(graphs)
    nodes = _mean_nodes(graphs.x[place < size], place[place < size], size, features)
    return Graphon(usvt(mean, threshold), nodes, label, graphs.edge_attr)


def _mean_nodes(x: Tensor, place: Tensor, size: int, features: Features) -> Tensor:
    """Means or frequencies over the graphs that reach a place; over all places where none does."""
    if features.vocabulary is None:
        total = torch.zeros(size, x.shape[1], dtype=torch.double).index_add_(0, place, x.double())
    else:
        pairs = zip(x.long().unbind(1), features.vocabulary, strict=True)
        total = torch.cat([_counts(place * k + value, size * k).reshape(size, k) for value, k in pairs], dim=1)
    count = _counts(place, size)[:, None]
    return torch.where(count > 0, total / count.clamp(min=1), total.sum(0) / count.sum().clamp(min=1))


def _counts(values: Tensor, length: int) -> Tensor:
    return torch.bincount(values, minlength=length).double()


def sample_graphs(
    one: Graphon, other: Graphon, share: float, count: int, features: Features, random: torch.Generator
) -> PackedGraphs:
    """Draw graphs from `share` of one graphon and the rest of the other, with the label mixed alike.

    Nodes without an edge are left out, and a graph without any edge is drawn again; where that never helps, as for two
    classes that have no edges, its first node remains.
    """
    size = len(one.edges)
    upper = torch.triu_indices(size, size, 1)
    chance = (share * one.edges + (1 - share) * other.edges)[upper[0], upper[1]]
    hit = torch.zeros(count, len(chance), dtype=torch.bool)
    for _ in range(_TRIES):
        empty = ~hit.any(1)
        if not empty.any():
            break
        hit[empty] = torch.rand(int(empty.sum()), len(chance), generator=random, dtype=torch.double) < chance
    graph, pair = hit.nonzero(as_tuple=True)
    joined = upper[:, pair]
    used = torch.zeros(count, size, dtype=torch.bool)
    used[graph, joined[0]] = used[graph, joined[1]] = True
    used[~hit.any(1), 0] = True
    number = used.cumsum(1) - 1
    ends = torch.stack([number[graph, joined[0]], number[graph, joined[1]]])
    edge_index = torch.stack([ends, ends.flip(0)], dim=2).reshape(2, -1)
    node_counts, edge_counts = used.sum(1), 2 * hit.sum(1)
    return PackedGraphs(
        x=_draw_nodes(share * one.nodes + (1 - share) * other.nodes, used, features, random),
        edge_index=smallest(edge_index),
        node_counts=node_counts,
        edge_counts=edge_counts,
        y=(share * one.label + (1 - share) * other.label).float().repeat(count, 1),
        reverse=smallest(reverse_edges(edge_index, node_counts, edge_counts)),
        edge_attr=_draw_bonds(one, other, share, len(graph), random),
    )


def _draw_nodes(mean: Tensor, used: Tensor, features: Features, random: torch.Generator) -> Tensor:
    """Features of the nodes in use: the mean itself, or a category drawn by its frequency."""
    if features.vocabulary is None:
        return mean.expand(len(used), -1, -1)[used].float()
    frequencies = mean.split(list(features.vocabulary), dim=1)
    drawn = [part.multinomial(len(used), replacement=True, generator=random) for part in frequencies]
    return torch.stack(drawn, dim=2).transpose(0, 1)[used]


def _draw_bonds(one: Graphon, other: Graphon, share: float, count: int, random: torch.Generator) -> Tensor | None:
    """Features of new edges, the same in both directions: rows of either class, that is, its joint histogram."""
    if one.bonds is None or other.bonds is None:
        return None
    sizes = [len(one.bonds), len(other.bonds)]
    if not all(sizes):  # a class without edges has none to give
        share = float(sizes[0] > 0)
    first = torch.rand(count, generator=random) < share
    places = [torch.randint(max(size, 1), (count,), generator=random) for size in sizes]
    rows = torch.where(first, places[0], sizes[0] + places[1])
    return torch.cat([one.bonds, other.bonds])[rows].repeat_interleave(2, dim=0)


def mixed_graphs(
    groups: list[Graphon], total: int, draws: int, most: float, features: Features, random: torch.Generator
) -> PackedGraphs:
    """`total` graphs in `draws` lots, each of its own two classes and its own share from [most/2, most]."""
    lots = []
    for lot in range(min(draws, total)):
        first, second = torch.randperm(len(groups), generator=random)[:2].tolist()
        share = most * (1 + float(torch.rand((), generator=random))) / 2
        count = total // draws + (lot < total % draws)
        lots.append(sample_graphs(groups[first], groups[second], share, count, features, random))
    return PackedGraphs.concatenate(lots)


def degrees(graphs: PackedGraphs, features: Features) -> Tensor:
    """How many edges leave each node, as a column of features `[N, 1]`."""
    rows = graphs.edge_index[0].long() + graphs.node_offsets.repeat_interleave(graphs.edge_counts)
    found = torch.bincount(rows, minlength=len(graphs.x))[:, None]
    return found if features.vocabulary is None else found.clamp(max=features.vocabulary[0] - 1)


def join(batch: GraphBatch, more: GraphBatch) -> GraphBatch:
    """Two batches as one, padded if either is; labels are left to whoever joins, environments are dropped."""
    total = batch.num_graphs + more.num_graphs

    def owners(first: Tensor, second: Tensor) -> Tensor:
        first = torch.where(first < batch.num_graphs, first, total)  # padding belongs behind all graphs
        return torch.cat([first, second + batch.num_graphs])

    def real(first: Tensor | None, second: Tensor | None, one: Tensor, other: Tensor) -> Tensor | None:
        if batch.graph_mask is None and more.graph_mask is None:
            return None
        marks = ((first, one), (second, other))
        return torch.cat([torch.ones_like(like, dtype=torch.bool) if m is None else m for m, like in marks])

    attributes = None
    if batch.edge_attr is not None and more.edge_attr is not None:
        attributes = torch.cat([batch.edge_attr, more.edge_attr.to(batch.edge_attr.dtype)])
    return batch.replace(
        x=torch.cat([batch.x, more.x.to(batch.x.dtype)]),
        edge_index=torch.cat([batch.edge_index, more.edge_index + batch.num_nodes], dim=1),
        node_batch=owners(batch.node_batch, more.node_batch),
        edge_batch=owners(batch.edge_batch, more.edge_batch),
        reverse=torch.cat([batch.reverse, more.reverse + batch.num_edges]),
        node_count=torch.cat([batch.node_count, more.node_count]),
        edge_count=torch.cat([batch.edge_count, more.edge_count]),
        index=torch.cat([batch.index, more.index]),
        environment=None,
        edge_attr=attributes,
        node_mask=real(batch.node_mask, more.node_mask, batch.node_batch, more.node_batch),
        edge_mask=real(batch.edge_mask, more.edge_mask, batch.edge_batch, more.edge_batch),
        graph_mask=real(batch.graph_mask, more.graph_mask, batch.node_count, more.node_count),
    )
