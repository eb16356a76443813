"""How much each atom counts, with a sign, and whether these contributions are faithful to the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from outland.graphs import PackedGraphs
from outland.models.bootstrap import mean_interval
from outland.models.model import TrainedModel
from outland.models.occlusion import Hidden, Occlusion

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of a graph's nodes that are hidden
_DRAWS, _MOST = 4, 100
Array = npt.NDArray[np.float64]
CALLED = "the class called"  # what contributions push towards where there are several and none is named


@dataclass(frozen=True)
class Faithfulness:
    """How far a prediction falls when the nodes that count most towards it are hidden, and when random ones are.

    Args:
        top, random: the mean fall at each share of `SHARES`, in the units of the contributions.
        score: mean over molecules and shares of the first minus the second; above 0 the contributions are faithful.
        low, high: the score's 95% interval, bootstrapped over molecules.
        graphs: how many there are.
    """

    top: tuple[float, ...]
    random: tuple[float, ...]
    score: float
    low: float
    high: float
    graphs: int


@dataclass(frozen=True)
class Contributions:
    """A signed contribution of every node of graphs `[N]`, one after another.

    Args:
        node: the score of the whole graph minus its score with the node hidden.
        towards: what a positive one pushes towards.
        faithfulness: of these contributions; None where there is nothing to hide.
    """

    node: Tensor
    towards: str
    faithfulness: Faithfulness | None = None

    def by_graph(self, graphs: PackedGraphs) -> list[Tensor]:
        """The contributions of each graph."""
        return list(self.node.split(graphs.node_counts.tolist()))


def contributions(
    model: TrainedModel,
    graphs: PackedGraphs,
    molecules: Sequence[Any] | None = None,
    target: int = 0,
    towards: str | None = None,
    judge: bool = True,
) -> Contributions:
    """Signed contributions of nodes to predictions of a target; `Occlusion` has the arguments.

    Each is f(graph) − f(graph with the node hidden), where f is the calibrated log-odds of a class or the predicted
    number. `judge` measures their faithfulness on some of the graphs, about as long again.
    """
    occlusion = Occlusion(model, graphs, molecules, target, towards)
    counts = graphs.node_counts
    single: list[Hidden] = [(graph, (node,)) for graph, count in enumerate(counts.tolist()) for node in range(count)]
    node = occlusion.whole.repeat_interleave(counts) - occlusion.scores(single)
    faithfulness = _faithfulness(occlusion, list(node.split(counts.tolist()))) if judge else None
    return Contributions(node, towards_phrase(model, target, towards), faithfulness)


def towards_phrase(model: TrainedModel, target: int = 0, towards: str | None = None) -> str:
    """What positive contributions push towards."""
    if not model.classes:
        return f"a higher {model.targets[target]}"
    if towards is None and len(model.classes) > 2:
        return CALLED
    column = "" if model.targets == ["label"] else f"{model.targets[target]} = "
    return f"{column}{model.classes[1] if towards is None else towards}"


def _faithfulness(occlusion: Occlusion, nodes: list[Tensor], seed: int = 0) -> Faithfulness | None:
    """Hide the nodes that count most towards each prediction, and as many random ones."""
    generator = np.random.default_rng(seed)
    judged = [graph for graph, values in enumerate(nodes) if len(values) > 1 and bool(values.isfinite().all())]
    judged = sorted(generator.choice(judged, min(_MOST, len(judged)), replace=False).tolist()) if judged else []
    if not judged:
        return None
    sign = _direction(occlusion)
    hidden: list[Hidden] = []
    for graph in judged:
        values = sign[graph] * nodes[graph].numpy()
        orders = [np.argsort(-values, kind="stable"), *(generator.permutation(len(values)) for _ in range(_DRAWS))]
        hidden += [
            (graph, order[: max(1, round(share * len(values)))].tolist()) for order in orders for share in SHARES
        ]
    fall = occlusion.whole[[graph for graph, _ in hidden]] - occlusion.scores(hidden)
    falls = fall.numpy().reshape(len(judged), 1 + _DRAWS, len(SHARES)) * sign[judged, None, None]
    return summarize_falls(falls[:, 0], falls[:, 1:].mean(1), generator)


def _direction(occlusion: Occlusion) -> Array:
    """1 where a graph's prediction is high, -1 where it is low `[G]`: for numbers, against the mean in training."""
    model, whole = occlusion.model, occlusion.whole.numpy()
    if model.task.kind == "multiclass":
        return np.ones(len(whole))
    middle = 0.0 if model.classes else model.task.mean[occlusion.target] if model.task.mean else float(np.mean(whole))
    return np.where(whole >= middle, 1.0, -1.0)


def summarize_falls(top: Array, random: Array, generator: np.random.Generator) -> Faithfulness:
    """The falls `[graphs, shares]` as a score with its interval."""
    gaps = (top - random).mean(1)
    curves = tuple(top.mean(0).tolist()), tuple(random.mean(0).tolist())
    return Faithfulness(*curves, *mean_interval(gaps, generator), len(gaps))
