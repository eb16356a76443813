"""How good a model is on rows it has not seen, and how sure that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata

from outland.errors import counted
from outland.estimators.model import Answers, FittedModel
from outland.graphs import PackedGraphs, Splits

Array = npt.NDArray[np.float64]
_DRAWS = 1000
_FEWEST, _FEWEST_OF_A_CLASS = 20, 10  # rows, below which a score is luck
_FEWEST_GROUPS = 10  # scaffolds, below which drawing them anew says little of how sure a score is


@dataclass(frozen=True)
class Judgement:
    """One number with its 95 % interval; None where it could not be taken."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Promise:
    """What a classifier said of rows on average, against what is true.

    Args:
        said: mean probability of the second of two classes; of the class it called where there are more.
        true: share of the rows that are of it.
        right: share of the rows called right.
    """

    said: float
    true: float
    right: float


@dataclass(frozen=True)
class Verdict:
    """Models side by side on one part.

    Args:
        part: its name; `rows` and `groups` (scaffolds, and single molecules without rings) are in it, and `rare` rows
            of the rarer of two classes.
        metric: what is measured.
        models: each model's number.
        difference: of the first model to the second, where there are two.
        promise: of the first model, where it is a classifier.
        mean_error: of always saying the training mean, where numbers are predicted.
    """

    part: str
    metric: str
    rows: int
    groups: int
    models: tuple[Judgement, ...]
    difference: Judgement | None
    rare: int | None = None
    promise: Promise | None = None
    mean_error: float | None = None

    @property
    def scant(self) -> str:
        """Why the rows cannot judge a model; the empty text where they can."""
        if self.rare is None:
            return f"too few to judge ({counted(self.rows, 'row')})" if self.rows < _FEWEST else ""
        if self.rare >= _FEWEST_OF_A_CLASS:
            return ""
        few = counted(self.rows, "row") if self.rows < _FEWEST else f"{counted(self.rare, 'row')} of one class"
        return f"too few to judge ({few})"


def judge(models: Sequence[FittedModel], splits: Splits, part: str, seed: int = 0) -> Verdict:
    """Score models on a part; intervals draw its scaffolds anew, a thousand times, the same ones for every model.

    Molecules of one scaffold are alike, so that drawing single molecules would make intervals too narrow. Those without
    rings have no scaffold in common and are drawn singly. Few scaffolds give no interval.
    """
    index = splits[part]
    graphs = splits.graphs.select(index)
    task = models[0].task
    y = graphs.y.flatten().double().numpy()
    answers = [model.answer(graphs) for model in models]
    said = [_said(model, one) for model, one in zip(models, answers, strict=True)]
    metric = {"binary": auc, "multiclass": accuracy, "regression": rmse}[task.kind]
    members = _members(_groups(graphs))
    values = [metric(one, y) for one in said]
    draws = _draws(said, y, members, metric, seed)
    difference = None
    if len(models) > 1 and values[0] is not None and values[1] is not None:
        difference = _interval(values[0] - values[1], draws[:, 0] - draws[:, 1])
    found = tuple(_of_some_width(_interval(value, draws[:, place])) for place, value in enumerate(values))
    rare = int(min((y == 1).sum(), (y != 1).sum())) if task.kind == "binary" else None
    promise = promised(models[0], answers[0], y)
    mean_error = rmse(np.full_like(y, models[0].scale[0]), y) if task.kind == "regression" else None
    return Verdict(part, task.metric, len(index), len(members), found, difference, rare, promise, mean_error)


def _said(model: FittedModel, answers: Answers) -> Array:
    """What the metric looks at: a ranking, a class, or a number."""
    if model.task.kind == "binary":
        found: Array = answers.outputs[:, 0].double().numpy()
        return found
    return model.numbers(answers) if not model.classes else model.decisions(answers).astype(np.float64)


def promised(model: FittedModel, answers: Answers, y: Array) -> Promise | None:
    """Whether probabilities keep their word on rows."""
    if not model.classes:
        return None
    chances, called = model.probabilities(answers), model.decisions(answers)
    right = float((called == y).mean())
    if model.task.kind == "binary":
        return Promise(float(chances[:, 1].mean()), float((y == 1).mean()), right)
    return Promise(float(chances[range(len(called)), called].mean()), right, right)


def _groups(graphs: PackedGraphs) -> npt.NDArray[np.int64]:
    """A number for the scaffold of each graph; one of its own for a graph that has none."""
    own = -1 - np.arange(len(graphs))
    if "scaffold" not in graphs.extra:
        return own
    return np.where(_ringless(graphs), own, graphs.extra["scaffold"].numpy())


def _ringless(graphs: PackedGraphs) -> npt.NDArray[np.bool_]:
    """Which graphs have as many edges as a forest: their nodes, less one for each part that hangs together."""
    first = torch.cumsum(graphs.node_counts, 0) - graphs.node_counts
    source, target = (graphs.edge_index.long() + first.repeat_interleave(graphs.edge_counts)).numpy()
    nodes = len(graphs.x)
    edges = coo_array((np.ones(len(source)), (source, target)), shape=(nodes, nodes))
    _, part = connected_components(edges, directed=False)
    owner = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts).numpy()
    parts = np.bincount(owner[np.unique(part, return_index=True)[1]], minlength=len(graphs))
    found: npt.NDArray[np.bool_] = graphs.edge_counts.numpy() == 2 * (graphs.node_counts.numpy() - parts)
    return found


def _members(groups: npt.NDArray[Any]) -> list[npt.NDArray[np.intp]]:
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, cuts)


def _draws(
    said: list[Array],
    y: Array,
    members: list[npt.NDArray[np.intp]],
    metric: Callable[[Array, Array], float | None],
    seed: int,
) -> Array:
    random, found = np.random.default_rng(seed), []
    for _ in range(_DRAWS if len(members) >= _FEWEST_GROUPS else 0):
        rows = np.concatenate([members[place] for place in random.integers(len(members), size=len(members))])
        values = [metric(one[rows], y[rows]) for one in said]
        if None not in values:
            found.append(values)
    return np.array(found, dtype=np.float64).reshape(-1, len(said))


def _interval(value: float | None, draws: Array) -> Judgement:
    if value is None or len(draws) < _DRAWS // 2:
        return Judgement(value)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Judgement(value, float(low), float(high))


def _of_some_width(one: Judgement) -> Judgement:
    """A perfect score is perfect in every draw, which says nothing of how sure it is."""
    return Judgement(one.value) if one.low == one.high else one


def auc(score: Array, y: Array) -> float | None:
    """ROC-AUC; None where there is one class only."""
    positive = y == 1
    yes, no = int(positive.sum()), int((~positive).sum())
    if not (yes and no):
        return None
    return float((rankdata(score)[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def accuracy(said: Array, y: Array) -> float | None:
    """Share of right classes."""
    return float((said == y).mean())


def rmse(said: Array, y: Array) -> float | None:
    """Root mean squared error."""
    return float(np.sqrt(np.square(said - y).mean()))
