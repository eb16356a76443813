"""The columns that a model adds to a row: prediction, set or interval, distance, expected error, flag."""

from dataclasses import dataclass

import numpy as np
import torch

from outland.chem.featurizer import Molecule
from outland.chem.packing import pack_molecules
from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.models.conformal import COVERAGE, LikelihoodRatio
from outland.models.model import Predictions, TrainedModel
from outland.models.uncertainty import expected_errors, flags, has_flags, prediction_intervals, prediction_sets
from outland.tables.reading import Cells

NOT_FINITE = "the model's numbers for it are not finite"
EMPTY_SET = "{}"


@dataclass(frozen=True)
class Coverage:
    """How often sets and intervals are to hold the truth, and the likelihood ratio that weighs scores, if any.

    Without a share, classes get no sets, and numbers intervals that hold it in 90 %.
    """

    share: float | None = None
    ratio: LikelihoodRatio | None = None

    def check(self, model: TrainedModel) -> None:
        """Refuse a share that is none, or that the model has no scores for."""
        if self.share is None:
            return
        if not 0 < self.share < 1:
            raise OutlandError(f"--coverage is a share between 0 and 1, as 0.9, not {self.share:g}")
        if model.conformal is None:
            raise OutlandError("the model keeps no scores of rows it was not trained on: fit it again for --coverage")


def new_columns(model: TrainedModel, coverage: Coverage | None = None) -> list[str]:
    """The columns that a prediction adds; where there are several targets, each has columns with its name."""
    asked = coverage is not None and coverage.share is not None
    if model.classes:
        names = ["outland_probability", "outland_class", *(["outland_set"] if asked else []), *_class_columns(model)]
    else:
        names = ["outland_prediction", *(["outland_low", "outland_high"] if model.conformal is not None else [])]
    known = {
        "outland_distance": model.distance is not None,
        "outland_similarity": model.neighbours is not None,
        "outland_expected_error": model.expected_error is not None,
        "outland_flag": has_flags(model),
        "outland_unseen_elements": len(model.training_elements) > 0,
    }
    predicted = [f"{name}{suffix}" for suffix in target_suffixes(model) for name in names]
    return [*predicted, *(name for name, is_known in known.items() if is_known), "outland_problem"]


def _class_columns(model: TrainedModel) -> list[str]:
    """The columns with the probability of each class, where there are three or more."""
    several = len(model.classes) > 2
    return [f"outland_probability_{name}" for name in model.classes] if several else []


def target_suffixes(model: TrainedModel) -> list[str]:
    """What names of columns end in, by target: nothing where there is one target."""
    return [""] if len(model.targets) == 1 else [f"_{target}" for target in model.targets]


def predict_molecules(model: TrainedModel, molecules: list[Molecule], coverage: Coverage | None = None) -> list[Cells]:
    """The columns that the model adds for each molecule."""
    return predict_rows(model, pack_molecules(molecules, torch.zeros(len(molecules), 1)), coverage) if molecules else []


def predict_rows(model: TrainedModel, graphs: PackedGraphs, coverage: Coverage | None = None) -> list[Cells]:
    """The columns that the model adds for each graph; only a problem where its numbers are not finite."""
    return prediction_cells(model, model.predict(graphs), coverage)


def prediction_cells(model: TrainedModel, predictions: Predictions, coverage: Coverage | None = None) -> list[Cells]:
    """The columns that the model adds for each row of its predictions, as `predict_rows` has them."""
    coverage = coverage or Coverage()
    columns: dict[str, list[str]] = {}
    if model.classes:
        _add_classes(columns, model, predictions, coverage)
    else:
        _add_numbers(columns, model, predictions, coverage)
    expected, names = expected_errors(model, predictions), flags(model, predictions)
    if predictions.distances is not None:
        columns["outland_distance"] = [f"{value:.4f}" for value in predictions.distances.tolist()]
    if predictions.similarity is not None:
        columns["outland_similarity"] = [f"{value:.3f}" for value in predictions.similarity]
    if expected is not None:
        columns["outland_expected_error"] = [f"{value:.4g}" for value in expected]
    if names is not None:
        columns["outland_flag"] = names
    if predictions.unseen is not None:
        columns["outland_unseen_elements"] = predictions.unseen
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    finite = predictions.are_finite
    return [row if finite[index] else {"outland_problem": NOT_FINITE} for index, row in enumerate(rows)]


def _add_classes(
    columns: dict[str, list[str]], model: TrainedModel, predictions: Predictions, coverage: Coverage
) -> None:
    probabilities, decisions = model.probabilities(predictions), model.decisions(predictions)
    rows = len(probabilities)
    sets = None
    if coverage.share is not None:
        sets = prediction_sets(model, predictions, coverage.share, coverage.ratio)
    for number, suffix in enumerate(target_suffixes(model)):
        called = decisions.reshape(rows, -1)[:, number]
        if len(model.classes) == 2:
            shown = probabilities[:, 1] if len(model.targets) == 1 else probabilities[:, number]
        else:
            shown = probabilities[np.arange(rows), called]
        columns[f"outland_probability{suffix}"] = [f"{value:.6f}" for value in shown]
        columns[f"outland_class{suffix}"] = [str(model.classes[index]) for index in called]
        if sets is not None:
            inside = [[str(model.classes[label]) for label in np.flatnonzero(row)] for row in sets[:, number]]
            columns[f"outland_set{suffix}"] = ["|".join(names) or EMPTY_SET for names in inside]
    for name, values in zip(_class_columns(model), probabilities.T, strict=False):
        columns[name] = [f"{value:.6f}" for value in values]


def _add_numbers(
    columns: dict[str, list[str]], model: TrainedModel, predictions: Predictions, coverage: Coverage
) -> None:
    numbers = model.numbers(predictions).reshape(len(predictions.outputs), -1)
    ends = None
    if model.conformal is not None:
        ends = prediction_intervals(model, predictions, coverage.share or COVERAGE, coverage.ratio)
    for number, suffix in enumerate(target_suffixes(model)):
        columns[f"outland_prediction{suffix}"] = [f"{value:.6g}" for value in numbers[:, number]]
        for name, values in zip(("low", "high"), ends or (), strict=False):
            columns[f"outland_{name}{suffix}"] = [f"{value:.6g}" for value in values[:, number]]
