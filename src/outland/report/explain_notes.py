"""Notes at the head of the page of explained molecules."""

from collections.abc import Iterable, Sequence

import numpy as np

from outland.models import TrainedModel
from outland.models.explained_rows import ExplainedRow
from outland.models.explanations import weights_phrase
from outland.models.messages import MASK_MEANING, calibration_sentence, distance_phrase, threshold_phrase
from outland.tables.duplicates import training_rows_note

_MIN_STD = 0.05  # of weights, below which a mask counts as constant


def constant_summary(weights: Iterable[float]) -> str:
    """Mean ± standard deviation of nearly constant weights; empty where they vary."""
    values = np.fromiter(weights, float)
    return f"{values.mean():.3f} ± {values.std():.3f}" if len(values) and values.std() < _MIN_STD else ""


def constant_weights(rows: Sequence[ExplainedRow]) -> tuple[str, str]:
    """`constant_summary` of all atoms and of all bonds."""
    atoms = constant_summary(weight for row in rows for weight in row.node_weights)
    bonds = constant_summary(weight for row in rows for weight in row.edge_weights)
    return atoms, bonds


def constant_weights_note(atoms: str, bonds: str) -> str:
    """Which of atoms and bonds are not shaded, given their `constant_summary`; empty where both are."""
    if atoms and bonds:
        return f"The weights tell neither atoms ({atoms}) nor bonds ({bonds}) apart: nothing is shaded."
    if atoms or bonds:
        constant, shaded = ("atoms", "bonds") if atoms else ("bonds", "atoms")
        return (
            f"The weights hardly tell {constant} apart ({atoms or bonds} over all of them): only {shaded} are shaded."
        )
    return ""


def shading_note(model: TrainedModel, atoms: str, bonds: str) -> str:
    """What shaded and pale parts of the drawings mean."""
    lines = [f"Shading is {weights_phrase(model)}."]
    if model.method.has_masks:
        lines.append(f"Pale parts are environment. {MASK_MEANING}")
    layers = model.method.mask_depth
    if model.method.has_masks and layers:
        atom, bond = ("atom", "bond") if model.kind == "molecules" else ("node", "edge")
        lines.append(
            f"Each {atom} stands for its neighbourhood: {model.method.name} weighs {atom}s after {layers} layers of "
            f"message passing, which reach up to {layers} {bond}s away."
        )
    lines += [constant_weights_note(atoms, bonds), "Shading says what the model looks at, not what is true."]
    return " ".join(filter(None, lines))


def columns_note(model: TrainedModel, known: bool, target: int = 0) -> str:
    """What the columns of numbers mean, for one of the model's targets."""
    lines, noun = [], "molecule" if model.kind == "molecules" else "graph"
    if len(model.classes) == 2:
        lines.append(
            f"Probability is of “{model.classes[1]}”, scaled on validation rows; a {noun} is "
            f"{threshold_phrase(model, target)}."
        )
    elif model.classes:
        lines.append("Probability is of the class called, scaled on validation rows.")
    elif known:
        tolerance, meaning = error_tolerance(model, target)
        lines.append(f"A prediction counts as right where it is off by at most {tolerance:.3g}, {meaning}.")
    if model.assessment is not None:
        held_out = model.assessment.of("test")[target]
        lines.append(calibration_sentence(held_out, model.spec.domain, model.classes))
    lines.append(f"Distance is {distance_phrase(model, noun)}.")
    return " ".join(filter(None, lines))


def error_tolerance(model: TrainedModel, target: int = 0) -> tuple[float, str]:
    """The largest error of a regression that counts as right, and a clause on what that is."""
    for score in [] if model.assessment is None else model.assessment.of("test")[target : target + 1]:
        if score.score.value is not None and not score.too_few:
            return score.score.value, "the model's usual error (root mean square) on held-out molecules"
    return model.task.std[target], "the spread of the labels in training"


def training_rows_notes(rows: Sequence[ExplainedRow]) -> list[str]:
    """A sentence on rows that the model was trained on, if there are any."""
    note = training_rows_note(sum(row.is_training for row in rows), len(rows))
    return [f"{note}."] if note else []


def row_notes(rows: Sequence[ExplainedRow]) -> list[str]:
    """What the command line says of the rows of a page."""
    return [*filter(None, [constant_weights_note(*constant_weights(rows))]), *training_rows_notes(rows)]
