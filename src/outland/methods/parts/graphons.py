"""Graphons estimated from the graphs of a class, and new graphs sampled from them; on the host, by seed."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from outland.graphs import Features, GraphBatch, PackedGraphs, Task
from outland.graphs.edges import reverse_edges, to_smallest_int
from outland.methods.parts.ranking import rank_within_group

_TRIES = 100


@dataclass(frozen=True)
class Graphon:
    """A class of graphs as one random graph on n positions, nodes of high degree first.

    Args:
        edges: probability of an edge between two positions, symmetric `[n, n]`.
        nodes: node features of each position: means, or the frequencies of every category, column by column `[n, C]`.
        label: mean label of the class, NaN where none is known `[L]`.
        edge_attr: edge features of the class's graphs `[*, F_e]`; a new edge takes one of these rows.
    """

    edges: Tensor
    nodes: Tensor
    label: Tensor
    edge_attr: Tensor | None = None


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
    """Rows of every two adjacent nodes, in both orders: parallel edges once, self-loops not at all."""
    total = len(graphs.x)
    source, target = graphs.edge_index.long() + graphs.node_offsets.repeat_interleave(graphs.edge_counts)
    keys = torch.cat([source * total + target, target * total + source])[(source != target).repeat(2)].unique()
    return keys // max(total, 1), keys % max(total, 1)


def usvt(mean: Tensor, threshold: float) -> Tensor:
    """Universal singular value thresholding: drop the values below `threshold`·√n, clip to [0, 1]."""
    u, values, vh = torch.linalg.svd(mean)
    values = torch.where(values < threshold * len(mean) ** 0.5, 0, values)
    low_rank: Tensor = (u * values) @ vh
    return ((low_rank + low_rank.T) / 2).clamp(0, 1)


def fit_graphon(graphs: PackedGraphs, label: Tensor, size: int, threshold: float, features: Features) -> Graphon:
    """Align the graphs of one class by decreasing degree, ties in node order, and average them.

    Graphs of more than `size` nodes are cropped, smaller ones padded with absent nodes; `threshold` is that of `usvt`.
    """
    source, target = neighbours(graphs)
    degree = torch.bincount(source, minlength=len(graphs.x))
    graph = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts)
    position = rank_within_group(-degree, graph, len(graphs))
    row, column = position[source], position[target]
    inside = (row < size) & (column < size)
    mean = _counts(row[inside] * size + column[inside], size * size).reshape(size, size) / len(graphs)
    nodes = _mean_nodes(graphs.x[position < size], position[position < size], size, features)
    return Graphon(usvt(mean, threshold), nodes, label, graphs.edge_attr)


def _mean_nodes(x: Tensor, position: Tensor, size: int, features: Features) -> Tensor:
    """Means or frequencies over the graphs that have a node at a position; over all positions where none has."""
    if features.vocabulary is None:
        total = torch.zeros(size, x.shape[1], dtype=torch.double).index_add_(0, position, x.double())
    else:
        pairs = zip(x.long().unbind(1), features.vocabulary, strict=True)
        total = torch.cat([_counts(position * k + value, size * k).reshape(size, k) for value, k in pairs], dim=1)
    count = _counts(position, size)[:, None]
    return torch.where(count > 0, total / count.clamp(min=1), total.sum(0) / count.sum().clamp(min=1))


def _counts(values: Tensor, length: int) -> Tensor:
    return torch.bincount(values, minlength=length).double()


def sample_graphs(
    first: Graphon, second: Graphon, share: float, count: int, features: Features, random: torch.Generator
) -> PackedGraphs:
    """Sample graphs from `share` of the first graphon and the rest of the second, with labels mixed likewise.

    Nodes without an edge are left out, and a graph without any edge is drawn again; where that never helps, as for two
    classes that have no edges, its first node remains.
    """
    size = len(first.edges)
    upper = torch.triu_indices(size, size, 1)
    probability = (share * first.edges + (1 - share) * second.edges)[upper[0], upper[1]]
    edges = torch.zeros(count, len(probability), dtype=torch.bool)
    for _ in range(_TRIES):
        empty = ~edges.any(1)
        if not empty.any():
            break
        uniform = torch.rand(int(empty.sum()), len(probability), generator=random, dtype=torch.double)
        edges[empty] = uniform < probability
    graph, pair = edges.nonzero(as_tuple=True)
    source, target = upper[:, pair]
    used = torch.zeros(count, size, dtype=torch.bool)
    used[graph, source] = used[graph, target] = True
    used[~edges.any(1), 0] = True
    number = used.cumsum(1) - 1
    ends = torch.stack([number[graph, source], number[graph, target]])
    edge_index = torch.stack([ends, ends.flip(0)], dim=2).reshape(2, -1)
    node_counts, edge_counts = used.sum(1), 2 * edges.sum(1)
    return PackedGraphs(
        x=_sample_nodes(share * first.nodes + (1 - share) * second.nodes, used, features, random),
        edge_index=to_smallest_int(edge_index),
        node_counts=node_counts,
        edge_counts=edge_counts,
        y=(share * first.label + (1 - share) * second.label).float().repeat(count, 1),
        reverse=to_smallest_int(reverse_edges(edge_index, node_counts, edge_counts)),
        edge_attr=_sample_edges(first, second, share, len(graph), random),
    )


def _sample_nodes(mean: Tensor, used: Tensor, features: Features, random: torch.Generator) -> Tensor:
    """Features of the nodes in use: the mean itself, or a category drawn by its frequency."""
    if features.vocabulary is None:
        return mean.expand(len(used), -1, -1)[used].float()
    frequencies = mean.split(list(features.vocabulary), dim=1)
    drawn = [part.multinomial(len(used), replacement=True, generator=random) for part in frequencies]
    return torch.stack(drawn, dim=2).transpose(0, 1)[used]


def _sample_edges(first: Graphon, second: Graphon, share: float, count: int, random: torch.Generator) -> Tensor | None:
    """Features of new edges, the same in both directions: random rows of either class."""
    if first.edge_attr is None or second.edge_attr is None:
        return None
    sizes = [len(first.edge_attr), len(second.edge_attr)]
    if not all(sizes):  # a class without edges has no rows
        share = float(sizes[0] > 0)
    from_first = torch.rand(count, generator=random) < share
    index = [torch.randint(max(size, 1), (count,), generator=random) for size in sizes]
    rows = torch.where(from_first, index[0], sizes[0] + index[1])
    return torch.cat([first.edge_attr, second.edge_attr])[rows].repeat_interleave(2, dim=0)


def mixed_graphs(
    graphons: list[Graphon], total: int, draws: int, largest: float, features: Features, random: torch.Generator
) -> PackedGraphs:
    """`total` graphs, divided among `draws` pairs of classes with a share from [largest/2, largest] each."""
    sampled = []
    for draw in range(min(draws, total)):
        first, second = torch.randperm(len(graphons), generator=random)[:2].tolist()
        share = largest * (1 + float(torch.rand((), generator=random))) / 2
        count = total // draws + (draw < total % draws)
        sampled.append(sample_graphs(graphons[first], graphons[second], share, count, features, random))
    return PackedGraphs.concatenate(sampled)


def degrees(graphs: PackedGraphs, features: Features) -> Tensor:
    """Out-degree of each node, as a column of features `[N, 1]`."""
    rows = graphs.edge_index[0].long() + graphs.node_offsets.repeat_interleave(graphs.edge_counts)
    degree = torch.bincount(rows, minlength=len(graphs.x))[:, None]
    return degree if features.vocabulary is None else degree.clamp(max=features.vocabulary[0] - 1)


def join(batch: GraphBatch, more: GraphBatch) -> GraphBatch:
    """Two batches as one, padded if either is; its labels are still those of the first, it has no environments."""
    total = batch.num_graphs + more.num_graphs

    def joined_index(first: Tensor, second: Tensor) -> Tensor:
        first = torch.where(first < batch.num_graphs, first, total)  # padding comes after all graphs
        return torch.cat([first, second + batch.num_graphs])

    padded = batch.graph_mask is not None or more.graph_mask is not None
    edge_attr = None
    if batch.edge_attr is not None and more.edge_attr is not None:
        edge_attr = torch.cat([batch.edge_attr, more.edge_attr.to(batch.edge_attr.dtype)])
    descriptors = batch.descriptors
    if descriptors is not None:  # nobody knows those of the others
        descriptors = torch.cat([descriptors, descriptors.new_full((more.num_graphs, descriptors.shape[1]), torch.nan)])
    return batch.replace(
        x=torch.cat([batch.x, more.x.to(batch.x.dtype)]),
        edge_index=torch.cat([batch.edge_index, more.edge_index + batch.num_nodes], dim=1),
        node_batch=joined_index(batch.node_batch, more.node_batch),
        edge_batch=joined_index(batch.edge_batch, more.edge_batch),
        reverse=torch.cat([batch.reverse, more.reverse + batch.num_edges]),
        node_count=torch.cat([batch.node_count, more.node_count]),
        edge_count=torch.cat([batch.edge_count, more.edge_count]),
        index=torch.cat([batch.index, more.index]),
        environment=None,
        edge_attr=edge_attr,
        descriptors=descriptors,
        node_mask=torch.cat([batch.real_nodes, more.real_nodes]) if padded else None,
        edge_mask=torch.cat([batch.real_edges, more.real_edges]) if padded else None,
        graph_mask=torch.cat([batch.real_graphs, more.real_graphs]) if padded else None,
    )
