"""How good a model is on rows it has not seen, and how sure that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata

from outland.estimators.model import FittedModel
from outland.graphs import Splits

Array = npt.NDArray[np.float64]
_DRAWS = 1000


@dataclass(frozen=True)
class Judgement:
    """One number with its 95 % interval; None where it could not be taken."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Models side by side on one part.

    Args:
        part: its name; `rows` and `groups` (scaffolds) are in it.
        metric: what is measured.
        models: each model's number.
        difference: of the first model to the second, where there are two.
    """

    part: str
    metric: str
    rows: int
    groups: int
    models: tuple[Judgement, ...]
    difference: Judgement | None


def judge(models: Sequence[FittedModel], splits: Splits, part: str, seed: int = 0) -> Verdict:
    """Score models on a part; intervals draw its scaffolds anew, a thousand times, the same ones for every model.

    Molecules of one scaffold are alike, so that drawing single molecules would make intervals too narrow.
    """
    index = splits[part]
    graphs = splits.graphs.select(index)
    task = models[0].task
    y = graphs.y.flatten().double().numpy()
    groups = graphs.extra["scaffold"] if "scaffold" in graphs.extra else torch.arange(len(index))
    said = [_said(model, model.answer(graphs)) for model in models]
    metric = {"binary": auc, "multiclass": accuracy, "regression": rmse}[task.kind]
    members = _members(groups.numpy())
    values = [metric(one, y) for one in said]
    draws = _draws(said, y, members, metric, seed)
    difference = None
    if len(models) > 1 and values[0] is not None and values[1] is not None:
        difference = _interval(values[0] - values[1], draws[:, 0] - draws[:, 1])
    found = tuple(_interval(value, draws[:, place]) for place, value in enumerate(values))
    return Verdict(part, task.metric, len(index), len(members), found, difference)


def _said(model: FittedModel, answers: Any) -> Array:
    """What the metric looks at: a ranking, a class, or a number."""
    if model.task.kind == "binary":
        found: Array = answers.outputs[:, 0].double().numpy()
        return found
    return model.numbers(answers) if not model.classes else model.decisions(answers).astype(np.float64)


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
    for _ in range(_DRAWS):
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
