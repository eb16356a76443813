"""Scores of models, and how sure they are."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.graphs import PackedGraphs, Task
from outland.models import evaluate_models
from outland.models.evaluation import auc, check_calibration, compare_outputs, metric_of, rmse
from outland.models.model import Predictions
from outland.models.summary import Interval
from tests.models.cases import SMALL, bbbp


def labelled(scaffolds: int, labels: torch.Tensor | None = None) -> PackedGraphs:
    """The sample with its labels or others, its molecules dealt to so many scaffolds."""
    smiles, own = bbbp()
    y = torch.tensor(own) if labels is None else labels
    graphs = replace(read_inputs(smiles).graphs, y=y.float()[:, None])
    return in_scaffolds(graphs, torch.arange(len(smiles)) % scaffolds)


def in_scaffolds(graphs: PackedGraphs, scaffold: torch.Tensor) -> PackedGraphs:
    """The graphs as molecules of these scaffolds."""
    return replace(graphs, extra={**graphs.extra, "scaffold": scaffold})


def test_metrics():
    assert auc(np.array([0.1, 0.2, 0.2, 0.9]), np.array([0, 0, 1, 1])) == 0.875
    assert auc(np.array([0.1, 0.2]), np.array([1, 1])) is None
    assert rmse(np.array([1.0, 3.0]), np.array([1.0, 0.0])) == pytest.approx(3 / np.sqrt(2))


def test_probabilities_are_held_against_the_truth(fitted):
    smiles, labels = bbbp()
    predictions = fitted.model_.predict(read_inputs(smiles).graphs)
    check = check_calibration(fitted.model_, predictions, np.array(labels, dtype=float))
    assert check.mean_probability == pytest.approx(fitted.predict_proba(smiles)[:, 1].mean())
    assert check.observed_rate == pytest.approx(np.mean(labels))
    assert check.accuracy == pytest.approx(fitted.score(smiles, labels))


def test_unknown_labels_are_left_out(fitted):
    smiles, labels = bbbp()
    y = torch.tensor(labels).float()
    y[::3] = float("nan")
    (score,) = evaluate_models([fitted.model_], labelled(298, y))
    known = ~y.isnan().numpy()
    expected = fitted.predict_proba(smiles)[known, 1]
    assert (score.rows, score.groups) == (198, 198)
    assert score.score.value == pytest.approx(roc_auc_score(np.array(labels)[known], expected))
    assert score.rare == min(np.bincount(np.array(labels)[known]))
    assert score.calibration.mean_probability == pytest.approx(expected.mean())
    assert score.calibration.observed_rate == pytest.approx(np.array(labels)[known].mean())
    (nothing,) = evaluate_models([fitted.model_], labelled(298, torch.full((298,), float("nan"))))
    assert (nothing.rows, nothing.score, nothing.calibration) == (0, Interval(value=None), None)


def test_scores_and_their_intervals(fitted):
    models = [fitted.model_, fitted.model_]
    (single,), (twins,) = (evaluate_models(models, labelled(scaffolds)) for scaffolds in (298, 20))
    assert (single.part, single.target, single.metric) == ("test", "label", "rocauc")
    assert (single.rows, single.groups, twins.groups) == (298, 298, 20 + 14)  # 14 have no rings
    assert single.score == single.reference
    assert single.score.low < single.score.value < single.score.high
    assert single.difference == Interval(value=0, low=0, high=0)
    assert twins.score.value == single.score.value
    assert twins.score.high - twins.score.low > 0
    (alone,) = evaluate_models(models[:1], labelled(298))
    assert (alone.difference, alone.reference, alone.score) == (None, None, single.score)
    assert evaluate_models(models[:1], labelled(298), seed=1)[0].score.low != single.score.low


def test_a_perfect_score_has_no_interval(fitted):
    outputs = fitted.model_.predict(labelled(298)).outputs[:, 0]
    best = outputs > outputs.median()
    (perfect,) = evaluate_models([fitted.model_], labelled(298, best))
    assert perfect.score == Interval(value=1.0)
    best[outputs.argmax()] = False
    (almost,) = evaluate_models([fitted.model_], labelled(298, best))
    assert almost.score.low < almost.score.value < 1.0


def test_few_scaffolds_give_no_interval(fitted):
    smiles, _ = bbbp()
    ring = re.compile(r"\d").search  # digits outside of brackets close rings
    rings = torch.tensor([row for row, text in enumerate(smiles) if ring(re.sub(r"\[.*?\]", "", text))])
    assert len(rings) == 284
    (few,), (enough,) = (
        evaluate_models([fitted.model_, fitted.model_], in_scaffolds(labelled(298).select(rings), rings % groups))
        for groups in (9, 10)
    )
    assert (few.groups, enough.groups) == (9, 10)
    assert few.score == Interval(value=enough.score.value)
    assert few.difference == Interval(value=0.0)
    assert enough.score.low < enough.score.high


def test_molecules_without_rings_are_single_ones(fitted):
    smiles = ["CCO", "CCN.Cl", "c1ccccc1O", "c1ccccc1.Cl.Cl.Cl", "C", "C1CC1"]
    inputs = read_inputs(smiles, scaffold=True)
    graphs = in_scaffolds(inputs.graphs, inputs.groups["scaffold"])
    assert graphs.extra["scaffold"].tolist() == [0, 0, 1, 1, 0, 2]

    def groups(rows: PackedGraphs) -> int:
        return evaluate_models([fitted.model_], rows)[0].groups

    assert (groups(graphs), groups(inputs.graphs)) == (5, 6)
    pairs = [(i, j) for i in range(6) for j in range(i)]
    assert [pair for pair in pairs if groups(graphs.select(torch.tensor(pair))) == 1] == [(3, 2)]


def test_the_mean_is_judged_on_the_held_out_rows():
    smiles = bbbp()[0][:60]
    model = GraphRegressor("erm", epochs=1, backbone=SMALL, domain="random").fit(smiles[:40], [0.0, 1.0] * 20)
    held_out = replace(read_inputs(smiles).graphs, y=torch.ones(60, 1)).select(torch.arange(40, 60))
    (score,) = evaluate_models([model.model_], held_out)
    assert score.mean_error == pytest.approx(1 - model.model_.task.mean[0])  # all of them are 1
    assert score.score.value == pytest.approx(np.sqrt(np.square(model.predict(smiles[40:]) - 1).mean()))
    assert (score.metric, score.rare, score.calibration) == ("rmse", None, None)


def test_the_commonest_of_several_classes_is_what_a_guess_says():
    smiles = bbbp()[0][:60]
    model = GraphClassifier("erm", epochs=1, backbone=SMALL, domain="random").fit(smiles, [*"abc"] * 20)
    graphs = replace(read_inputs(smiles).graphs, y=torch.tensor([0] * 45 + [1] * 9 + [2] * 6))
    (score,) = evaluate_models([model.model_], graphs)
    assert (score.common_share, score.mean_error) == (0.75, None)
    called = model.model_.decisions(model.model_.predict(graphs))
    right = [int((called[graphs.y == number] == number).sum()) for number in range(3)]
    assert score.called_right == {"a": [right[0], 45], "b": [right[1], 9], "c": [right[2], 6]}

    def may_be_chance(low: float | None, value: float = 0.8) -> bool:
        return score.model_copy(update={"score": Interval(value=value, low=low)}).may_be_chance

    assert [may_be_chance(0.7), may_be_chance(0.76), may_be_chance(None), may_be_chance(None, 0.75)] == [
        True,
        False,
        False,
        True,
    ]


def spoiled(predictions: Predictions, rows: slice, value: float) -> Predictions:
    """The predictions with a number that is not finite in these rows."""
    outputs = predictions.outputs.clone()
    outputs[rows] = value
    return replace(predictions, outputs=outputs)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_whose_predictions_are_not_finite_are_left_out_and_counted(fitted, value):
    graphs = labelled(298)
    graphs.y[:10] = float("nan")
    predictions = fitted.model_.predict(graphs)
    (found,) = evaluate_models([fitted.model_], graphs, predictions=[spoiled(predictions, slice(40), value)])
    rest = Predictions(predictions.outputs[40:])
    (expected,) = evaluate_models([fitted.model_], graphs.select(torch.arange(40, 298)), predictions=[rest])
    assert (found.rows, found.not_finite, expected.not_finite) == (258, 30, 0)  # ten of the forty have no label
    assert found == expected.model_copy(update={"not_finite": 30})
    both = [predictions, spoiled(predictions, slice(40), value)]
    (beside,) = evaluate_models([fitted.model_] * 2, graphs, predictions=both)
    assert (beside.score, beside.difference.value, beside.not_finite) == (expected.score, 0.0, 30)  # the same rows
    nothing = [spoiled(predictions, slice(None), value)]
    (none,) = evaluate_models([fitted.model_], graphs, predictions=nothing)
    assert (none.rows, none.not_finite, none.score.value, none.calibration) == (0, 288, None, None)
    assert none.left_out == "288 more rows left out, whose predictions are not finite"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_outputs_that_are_not_finite_have_no_score_beside_others(kind, value):
    y = np.array([[0.0, 1.0], [1.0, 0.0]] * 20)[:, : 1 if kind == "multiclass" else 2]
    good = np.random.default_rng(0).normal(size=(40, 2))
    odd = good.copy()
    odd[3, 0] = value
    metric = {"binary": "rocauc", "multiclass": "accuracy", "regression": "rmse"}[kind]
    (first, _), (second, difference) = compare_outputs([good, odd], y, np.arange(40.0), Task(kind, 2, metric))
    assert first.value is not None
    assert (second, difference) == (Interval(value=None), Interval(value=None))


def test_graphs_with_other_labels_are_refused(fitted):
    graphs = replace(labelled(298), y=torch.zeros(298, 3))
    with pytest.raises(OutlandError, match="the graphs have 3 labels each, and the model predicts 1"):
        evaluate_models([fitted.model_], graphs)


def test_outputs_are_compared_in_the_same_draws():
    generator = np.random.default_rng(0)
    y = (generator.random((300, 1)) < 0.4).astype(float)
    good = y + generator.normal(size=(300, 1))
    worse = good + 0.5 * generator.normal(size=(300, 1))
    groups = np.arange(300) // 3.0
    (first, zero), (second, difference) = compare_outputs([good, worse], y, groups, Task("binary", 1, "rocauc"))
    assert (zero.value, zero.low, zero.high) == (0, 0, 0)
    assert first.value == pytest.approx(auc(good[:, 0], y[:, 0]))
    assert difference.value == pytest.approx(second.value - first.value)
    assert difference.high - difference.low < second.high - second.low  # they are paired


def test_several_targets_are_compared_by_their_mean():
    y = np.array([[0.0, 1.0], [1.0, np.nan], [1.0, 0.0], [0.0, np.nan]] * 20)
    outputs = np.stack([y[:, 0], np.zeros(80)], 1)
    ((score, _),) = compare_outputs([outputs], y, np.arange(80.0), Task("binary", 2, "rocauc"))
    assert score.value == pytest.approx((1.0 + 0.5) / 2)
    numbers = Task("regression", 1, "rmse")
    ((error, _),) = compare_outputs([np.full((80, 1), 2.0)], np.zeros((80, 1)), np.arange(80.0), numbers)
    assert error.value == pytest.approx(2.0)
    assert metric_of(numbers) == "rmse"
