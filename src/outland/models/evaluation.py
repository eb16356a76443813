"""Scores of models on labelled graphs, with bootstrap intervals over scaffolds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from outland.errors import OutlandError, counted
from outland.graphs import PackedGraphs, Task
from outland.graphs.schema import Metric
from outland.models.bootstrap import (
    Array,
    WeightedMetric,
    draw_groups,
    ratio,
    weighted_accuracy,
    weighted_auc,
    weighted_rmse,
)
from outland.models.model import Predictions, TrainedModel
from outland.models.summary import CalibrationCheck, Interval, PartScore
from outland.tables.folds import are_acyclic

_DRAWS = 1000
_FEWEST_GROUPS = 10  # scaffolds, below which a bootstrap over them says little


def evaluate_models(
    models: Sequence[TrainedModel],
    graphs: PackedGraphs,
    part: str = "test",
    seed: int = 0,
    predictions: Sequence[Predictions] | None = None,
) -> list[PartScore]:
    """Scores of the first model on each target, and of the second, the reference, where there is one.

    Intervals are 95 % bootstrap intervals over scaffolds, a thousand draws, the same for every model: molecules of one
    scaffold are alike, so that drawing single molecules would make intervals too narrow. Those without rings have no
    scaffold in common and are drawn singly. Few scaffolds give no interval. Rows whose prediction by a model is not
    finite are left out, as `outland predict` does, and counted.

    Args:
        models: one, or two of the same task.
        graphs: with labels in their own units; `extra["scaffold"]` groups them, where it is there.
        part: what the graphs are called in the result.
        seed: of the bootstrap.
        predictions: of the models on the graphs, where they are known already, or out-of-fold ones.
    """
    predictions = [model.predict(graphs) for model in models] if predictions is None else predictions
    labels = graphs.y.reshape(len(graphs), -1).double().numpy()
    return score_predictions(models, labels, scaffold_groups(graphs), predictions, part, seed)


def score_predictions(
    models: Sequence[TrainedModel],
    labels: Array,
    groups: Array,
    predictions: Sequence[Predictions],
    part: str = "test",
    seed: int = 0,
) -> list[PartScore]:
    """As `evaluate_models`, from labels `[n, T]` and the groups that are drawn `[n]`, without graphs."""
    if labels.shape[1] != len(models[0].targets):
        count = counted(labels.shape[1], "label")
        raise OutlandError(f"the graphs have {count} each, and the model predicts {len(models[0].targets)}")
    finite = np.logical_and.reduce([one.are_finite for one in predictions])
    scores = []
    for number, target in enumerate(models[0].targets):
        y = np.where(finite, labels[:, number], np.nan)
        known = ~np.isnan(y)
        columns = [_ranked(model, one, number) for model, one in zip(models, predictions, strict=True)]
        score = _score(models[0], columns, y, known, groups, seed)
        beside = _beside(models[0], columns[0][known], y[known], number)
        calibration = check_calibration(models[0], predictions[0], y, number)
        named = {"part": part, "target": target, "calibration": calibration, **beside}
        left_out = int((~np.isnan(labels[:, number]) & ~finite).sum())
        scores.append(score.model_copy(update={**named, "not_finite": left_out}))
    return scores


def compare_outputs(
    outputs: Sequence[Array], y: Array, groups: Array, task: Task, seed: int = 0
) -> list[tuple[Interval, Interval]]:
    """Score of each of several outputs `[n, outputs]`, the mean over targets, and its difference from the first's.

    Intervals are paired: in each draw of groups all are scored on the same rows. Outputs of which one is not finite
    have no score.

    Args:
        outputs: logits, log-probabilities of classes, or numbers in the units of the labels.
        y: labels `[n, T]`, NaN where unknown.
        groups: that are drawn whole `[n]`, as `scaffold_groups` has them.
        task: what is predicted.
        seed: of the bootstrap.
    """
    ranked = [each.argmax(1)[:, None].astype(np.float64) if task.kind == "multiclass" else each for each in outputs]
    ranked = [one if np.isfinite(each).all() else one * np.nan for one, each in zip(ranked, outputs, strict=True)]
    targets, metric = y.shape[1], _METRICS[task.kind][1]
    known = ~np.isnan(y)

    def mean_metric(columns: Array, weights: Array) -> Array:
        pairs = zip(columns.T, y.T, known.T, strict=True)
        return _mean_of_known([metric(column[rows], label[rows], weights[:, rows]) for column, label, rows in pairs])

    def measure(weights: Array) -> Array:
        return np.stack([mean_metric(columns, weights) for columns in ranked], 1)

    count = max(_DRAWS // targets, _DRAWS // 5)
    values, draws = _bootstrap(measure, groups, seed, count)
    result = []
    for index, value in enumerate(values):
        difference = Interval(value=None)
        if value is not None and values[0] is not None:
            difference = _interval(value - values[0], draws[:, index] - draws[:, 0], count)
        result.append((_with_width(_interval(value, draws[:, index], count)), difference))
    return result


def _mean_of_known(values: Sequence[Array]) -> Array:
    """The mean over targets in each draw, of those that have a score in it."""
    stacked = np.stack(values)
    scored = ~np.isnan(stacked)
    return ratio(np.where(scored, stacked, 0.0).sum(0), scored.sum(0).astype(np.float64))


def _score(
    model: TrainedModel, columns: list[Array], y: Array, known: npt.NDArray[np.bool_], groups: Array, seed: int
) -> PartScore:
    task = model.task
    metric = _METRICS[task.kind][1]
    columns, y, groups = [column[known] for column in columns], y[known], groups[known]

    def measure(weights: Array) -> Array:
        return np.stack([metric(column, y, weights) for column in columns], 1)

    values, draws = _bootstrap(measure, groups, seed)
    intervals = [_with_width(_interval(value, draws[:, index])) for index, value in enumerate(values)]
    difference = None
    if len(columns) > 1 and values[0] is not None and values[1] is not None:
        difference = _interval(values[0] - values[1], draws[:, 0] - draws[:, 1])
    return PartScore(
        part="",
        target="",
        metric=_METRICS[task.kind][0],
        rows=len(y),
        groups=len(np.unique(groups)),
        score=intervals[0],
        reference=intervals[1] if len(intervals) > 1 else None,
        difference=difference,
        rare=int(min((y == 1).sum(), (y != 1).sum())) if task.kind == "binary" else None,
    )


def _ranked(model: TrainedModel, predictions: Predictions, target: int) -> Array:
    """What the metric compares with labels: logits, classes, or numbers."""
    if model.task.kind == "multiclass":
        return model.decisions(predictions).astype(np.float64)
    outputs = predictions.outputs.double()
    column: Array = (outputs if model.task.kind == "binary" else model.task.in_label_units(outputs))[:, target].numpy()
    return column


def _beside(model: TrainedModel, called: Array, y: Array, target: int) -> dict[str, Any]:
    """What stands beside a score: the same answer for all rows, and of several classes how each is called."""
    if len(y) and model.task.mean:
        return {"mean_error": rmse(np.full_like(y, model.task.mean[target]), y)}
    if not len(y) or model.task.kind != "multiclass":
        return {}
    rows = [y == number for number in range(len(model.classes))]
    right = {
        str(name): [int((called[of] == number).sum()), int(of.sum())]
        for number, (name, of) in enumerate(zip(model.classes, rows, strict=True))
    }
    return {"called_right": right}


def check_calibration(
    model: TrainedModel, predictions: Predictions, y: Array, target: int = 0
) -> CalibrationCheck | None:
    """Mean predicted probability of a target against its labels `y`, NaN where unknown; None for numbers."""
    known = ~np.isnan(y)
    if not model.classes or not known.any():
        return None
    probabilities, decisions = model.probabilities(predictions)[known], model.decisions(predictions)[known]
    y = y[known]
    if model.task.kind == "binary":
        positive = probabilities[:, 1] if model.task.outputs == 1 else probabilities[:, target]
        called = decisions if decisions.ndim == 1 else decisions[:, target]
        return CalibrationCheck(
            mean_probability=float(positive.mean()),
            observed_rate=float((y == 1).mean()),
            accuracy=float((called == y).mean()),
        )
    right = float((decisions == y).mean())
    mean = float(probabilities[range(len(decisions)), decisions].mean())
    return CalibrationCheck(mean_probability=mean, observed_rate=right, accuracy=right)


def scaffold_groups(graphs: PackedGraphs) -> Array:
    """A number for the scaffold of each graph; a number of its own for a graph that has none."""
    singles: Array = -1.0 - np.arange(len(graphs), dtype=np.float64)
    if "scaffold" not in graphs.extra:
        return singles
    scaffolds = graphs.extra["scaffold"].numpy()
    groups: Array = np.where(are_acyclic(graphs).numpy(), singles, scaffolds).astype(np.float64)
    return groups


def _bootstrap(
    measure: Callable[[Array], Array], groups: Array, seed: int, count: int = _DRAWS
) -> tuple[list[float | None], Array]:
    """What is measured of the rows themselves, and in draws of groups `[draws, columns]`; no draws of few groups."""
    values = measure(np.ones((1, len(groups))))
    draws = np.empty((0, values.shape[1]))
    if len(np.unique(groups)) >= _FEWEST_GROUPS:
        draws = draw_groups(measure, groups, seed, count)
    return [None if np.isnan(value) else float(value) for value in values[0]], draws


def _interval(value: float | None, draws: Array, count: int = _DRAWS) -> Interval:
    if value is None or len(draws) < count // 2:
        return Interval(value=value)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(value=value, low=float(low), high=float(high))


def _with_width(interval: Interval) -> Interval:
    """A perfect score is perfect in every draw, which says nothing of how sure it is."""
    return Interval(value=interval.value) if interval.low == interval.high else interval


def auc(score: Array, y: Array) -> float | None:
    """ROC-AUC; None where there is one class only."""
    value = weighted_auc(score, y, np.ones((1, len(y))))[0]
    return None if np.isnan(value) else float(value)


def rmse(numbers: Array, y: Array) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.square(numbers - y).mean()))


def metric_of(task: Task) -> Metric:
    """The metric that scores of a task are in."""
    return _METRICS[task.kind][0]


_METRICS: dict[str, tuple[Metric, WeightedMetric]] = {
    "binary": ("rocauc", weighted_auc),
    "multiclass": ("accuracy", weighted_accuracy),
    "regression": ("rmse", weighted_rmse),
}
