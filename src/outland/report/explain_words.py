"""What the page of explained molecules says above them."""

from collections.abc import Iterable, Sequence

import numpy as np

from outland.estimators.explained import Explained, way
from outland.estimators.model import FittedModel
from outland.estimators.words import MEANING, distance_words, kept_word, limit_words

_FLAT = 0.05  # spread of weights below which a mask tells nothing apart


def flat(weights: Iterable[float]) -> str:
    """Mean and spread of weights that are all but the same; the empty text where they differ."""
    found = np.fromiter(weights, float)
    return f"{found.mean():.3f} ± {found.std():.3f}" if len(found) and found.std() < _FLAT else ""


def flat_parts(rows: Sequence[Explained]) -> tuple[str, str]:
    """Which of atoms and bonds the weights do not tell apart, over all rows."""
    return flat(one for row in rows for one in row.atoms), flat(one for row in rows for one in row.bonds)


def flat_words(atoms: str, bonds: str) -> str:
    """What follows from it for the drawings."""
    if atoms and bonds:
        return f"The weights tell neither atoms ({atoms}) nor bonds ({bonds}) apart: nothing is shaded."
    if atoms or bonds:
        which, other = ("atoms", "bonds") if atoms else ("bonds", "atoms")
        return f"The weights hardly tell {which} apart ({atoms or bonds} over all of them): only {other} are shaded."
    return ""


def shading(model: FittedModel, atoms: str, bonds: str) -> str:
    """What shaded and pale parts are."""
    lines = [f"Shading is {way(model)}."]
    if model.method.has_masks:
        lines.append(f"Pale parts are environment. {MEANING}")
    layers = model.method.mask_depth
    if model.method.has_masks and layers:
        lines.append(
            f"An atom stands for its neighbourhood: {model.method.name} weighs atoms after {layers} layers, in which "
            f"each has heard of those up to {layers} bonds away."
        )
    lines += [flat_words(atoms, bonds), "Shading says what the model looks at, not what is true."]
    return " ".join(filter(None, lines))


def numbers(model: FittedModel, known: bool) -> str:
    """What the columns of numbers are."""
    lines = []
    if len(model.classes) == 2:
        lines.append(
            f"Probability is of “{model.classes[1]}”, scaled on validation rows; a molecule is {limit_words(model)}."
        )
    elif model.classes:
        lines.append("Probability is of the class called, scaled on validation rows.")
    elif known:
        usual, name = usual_error(model)
        lines.append(f"A prediction counts as right where it is off by at most {usual:.3g}, {name}.")
    lines += [kept_word(model.about, model.classes), f"Distance is {distance_words(model, 'molecule')}."]
    return " ".join(filter(None, lines))


def usual_error(model: FittedModel) -> tuple[float, str]:
    """How far off a predicted number may be to count as right, and what that is."""
    for row in model.about.get("scores", []):
        if row["part"] == "held out" and row["value"] is not None and not row.get("scant"):
            return row["value"], "the model's usual error (root mean square) on held-out molecules"
    return model.scale[1], "the spread of the labels in training"
