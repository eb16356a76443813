"""Notes at the head of the page of explained molecules."""

from collections.abc import Iterable, Sequence

import numpy as np

from outland.estimators.explained import Explained, way
from outland.estimators.model import FittedModel
from outland.estimators.words import MEANING, distance_words, kept_word, limit_words

_MIN_STD = 0.05  # of weights, below which a mask counts as constant


def constant_summary(weights: Iterable[float]) -> str:
    """Mean ± standard deviation of nearly constant weights; empty where they vary."""
    values = np.fromiter(weights, float)
    return f"{values.mean():.3f} ± {values.std():.3f}" if len(values) and values.std() < _MIN_STD else ""


def constant_weights(rows: Sequence[Explained]) -> tuple[str, str]:
    """`constant_summary` of all atoms and of all bonds."""
    atoms = constant_summary(weight for row in rows for weight in row.atoms)
    bonds = constant_summary(weight for row in rows for weight in row.bonds)
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


def shading_note(model: FittedModel, atoms: str, bonds: str) -> str:
    """What shaded and pale parts of the drawings mean."""
    lines = [f"Shading is {way(model)}."]
    if model.method.has_masks:
        lines.append(f"Pale parts are environment. {MEANING}")
    layers = model.method.mask_depth
    if model.method.has_masks and layers:
        lines.append(
            f"An atom stands for its neighbourhood: {model.method.name} weighs atoms after {layers} layers of "
            f"message passing, which reach up to {layers} bonds away."
        )
    lines += [constant_weights_note(atoms, bonds), "Shading says what the model looks at, not what is true."]
    return " ".join(filter(None, lines))


def columns_note(model: FittedModel, known: bool) -> str:
    """What the columns of numbers mean."""
    lines = []
    if len(model.classes) == 2:
        lines.append(
            f"Probability is of “{model.classes[1]}”, scaled on validation rows; a molecule is {limit_words(model)}."
        )
    elif model.classes:
        lines.append("Probability is of the class called, scaled on validation rows.")
    elif known:
        tolerance, meaning = error_tolerance(model)
        lines.append(f"A prediction counts as right where it is off by at most {tolerance:.3g}, {meaning}.")
    lines += [kept_word(model.about, model.classes), f"Distance is {distance_words(model, 'molecule')}."]
    return " ".join(filter(None, lines))


def error_tolerance(model: FittedModel) -> tuple[float, str]:
    """The largest error of a regression that counts as right, and a clause on what that is."""
    for row in model.about.get("scores", []):
        if row["part"] == "held out" and row["value"] is not None and not row.get("scant"):
            return row["value"], "the model's usual error (root mean square) on held-out molecules"
    return model.scale[1], "the spread of the labels in training"
