"""How far predictions fall as edges are removed in the order of an explanation, or put back in that order."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.graphs.edges import graphs_of_rows, starts_by_edge
from outland.graphs.induced import spanning_subgraphs
from outland.methods.parts.ranking import rank_within_group
from outland.models.bootstrap import Interval, mean_interval
from outland.models.model import TrainedModel
from outland.models.occlusion import mean_outputs, node_blocks

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of a graph's undirected edges
Array = npt.NDArray[np.float64]
ClassLogits = Callable[[PackedGraphs], Tensor]  # logits of all classes [G, C], on the host


def class_logits(model: TrainedModel) -> ClassLogits:
    """A model's logits of all classes; of two classes the first has logit 0.

    They are not calibrated: a temperature flattens all curves of a model, and areas of two would differ by theirs.
    """
    if model.task.kind == "regression" or len(model.targets) > 1:
        raise OutlandError(f"curves of explanations are of one label with classes, and {model.name} has another task")

    def logits(graphs: PackedGraphs) -> Tensor:
        z = mean_outputs(model, graphs)
        return z if z.shape[1] > 1 else torch.cat([torch.zeros_like(z), z], 1)

    return logits


@dataclass(frozen=True)
class EdgeCurve:
    r"""Predictions of graphs with some of their edges, at each share of `SHARES`.

    Args:
        fall: :math:`p_c(G) - p_c(G')` of the class c predicted for the whole graph `[G, shares]`.
        kept: whether c is still predicted, or how often `[G, shares]`.
    """

    fall: Tensor
    kept: Tensor

    @property
    def area(self) -> Tensor:
        """Area under each graph's fall over the shares, by trapezoids `[G]`: its mean where shares are drawn evenly."""
        return torch.trapezoid(self.fall, torch.tensor(SHARES, dtype=self.fall.dtype), dim=1)


@dataclass(frozen=True)
class EdgeCurves:
    """Both curves of an explanation.

    Args:
        deletion: without the share of edges that it ranks first; the fall is large where these decide.
        insertion: with that share and no other edge; the fall is small where the rest does not matter.
    """

    deletion: EdgeCurve
    insertion: EdgeCurve

    def intervals(self, random: "EdgeCurves", seed: int = 0) -> dict[str, Interval]:
        """Mean areas over graphs, and by how much each is better than that of a random order, bootstrapped."""
        deletion, insertion = self.deletion.area, self.insertion.area
        values = {
            "deletion": deletion,
            "deletion_gain": deletion - random.deletion.area,
            "insertion": insertion,
            "insertion_gain": random.insertion.area - insertion,
        }
        return {name: mean_interval(value.numpy(), np.random.default_rng(seed)) for name, value in values.items()}


def edge_curves(
    predict: ClassLogits, graphs: PackedGraphs, score: Tensor, generator: np.random.Generator
) -> EdgeCurves:
    """The curves of the order by descending `score` of the directed edges `[E]`.

    An undirected edge has the mean of its two scores, and ties are broken at random. Of m edges the nearest whole
    number to share·m is taken. Edges are removed from the graphs, so that whatever reads them, a mask network too,
    reads graphs without these edges: the same as a weight of 0 in every layer, where edges carry messages only.
    """
    rank, count = edge_ranks(graphs, score, generator)
    graph = graphs_of_rows(graphs.edge_counts)
    first = [rank < (share * count).round()[graph] for share in SHARES]
    whole = predict(graphs).double()
    called = whole.argmax(1)
    return EdgeCurves(
        _curve(predict, graphs, [~edges for edges in first], whole, called),
        _curve(predict, graphs, first, whole, called),
    )


def _curve(predict: ClassLogits, graphs: PackedGraphs, keeps: list[Tensor], whole: Tensor, called: Tensor) -> EdgeCurve:
    logits = torch.stack([predict(spanning_subgraphs(graphs, keep)).double() for keep in keeps], 1)  # [G, shares, C]
    column = called[:, None, None].expand(-1, len(keeps), 1)
    probability = logits.softmax(2).gather(2, column)[:, :, 0]
    before = whole.softmax(1).gather(1, called[:, None])
    return EdgeCurve(before - probability, (logits.argmax(2) == called[:, None]).double())


def random_curves(
    predict: ClassLogits, graphs: PackedGraphs, generator: np.random.Generator, draws: int = 8
) -> EdgeCurves:
    """The mean curves of random orders, the baseline of every explanation."""
    score = torch.zeros(len(graphs.reverse))
    curves = [edge_curves(predict, graphs, score, generator) for _ in range(draws)]
    return EdgeCurves(_mean([each.deletion for each in curves]), _mean([each.insertion for each in curves]))


def _mean(curves: list[EdgeCurve]) -> EdgeCurve:
    return EdgeCurve(*(torch.stack([getattr(each, name) for each in curves]).mean(0) for name in ("fall", "kept")))


def edge_ranks(graphs: PackedGraphs, score: Tensor, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Rank of each edge in its graph by descending score, from 0 `[E]`, and each graph's undirected edges `[G]`."""
    graph, partner = graphs_of_rows(graphs.edge_counts), partners(graphs)
    row = torch.arange(len(partner))
    is_first = row <= partner
    keys = torch.where(is_first, -(score + score[partner]), torch.inf)
    shuffled = torch.from_numpy(generator.permutation(len(row)))
    rank = torch.empty_like(row)
    rank[shuffled] = rank_within_group(keys[shuffled], graph[shuffled], len(graphs))
    count = torch.zeros(len(graphs), dtype=torch.double).index_add(0, graph, is_first.double())
    return rank[torch.minimum(row, partner)], count


def partners(graphs: PackedGraphs) -> Tensor:
    """Row of each edge's other direction `[E]`; that of the edge itself if it has none."""
    return graphs.reverse.long() + starts_by_edge(graphs.edge_counts, graphs.edge_counts)


def leave_one_out(predict: ClassLogits, graphs: PackedGraphs) -> Tensor:
    """Fall of the predicted class's log-odds where one undirected edge is removed `[E]`: the occlusion of edges."""
    graph, partner = graphs_of_rows(graphs.edge_counts), partners(graphs)
    row = torch.arange(len(partner))
    whole = predict(graphs).double()
    called = whole.argmax(1)
    before, fall = _log_odds(whole, called), torch.zeros(len(row), dtype=torch.double)
    removed = row[row <= partner]
    for block in node_blocks(graphs.node_counts[graph[removed]]):
        edges, source = removed[block], graph[removed[block]]
        copies = graphs.select(source)
        shift = copies.edge_offsets - graphs.edge_offsets[source]
        keep = torch.ones(len(copies.reverse), dtype=torch.bool)
        keep[edges + shift] = keep[partner[edges] + shift] = False
        fall[edges] = before[source] - _log_odds(predict(spanning_subgraphs(copies, keep)).double(), called[source])
    return fall[torch.minimum(row, partner)]


def _log_odds(logits: Tensor, called: Tensor) -> Tensor:
    column = called[:, None]
    return logits.gather(1, column)[:, 0] - logits.scatter(1, column, -torch.inf).logsumexp(1)
