"""Sentences about a model that its card, its summary and its pages share."""

from collections.abc import Mapping, Sequence
from typing import Any

from outland.estimators.model import FittedModel

METRICS = {"rocauc": "ROC-AUC", "accuracy": "share called right", "rmse": "root mean squared error"}
MEANING = (
    "Stable is what the method takes to decide the label wherever it occurs; environment is the rest, which may change "
    "without changing the label."
)
_APART = 0.1  # between what probabilities say and what is true, above which they are a ranking and no more


def kept_word(about: Mapping[str, Any], classes: Sequence[Any]) -> str:
    """What the probabilities said of held-out rows, against what is true; the empty text where that is not known."""
    held = about.get("held_out", {})
    if "said" not in held:
        return ""
    said, true, right = (f"{held[name]:.0%}" for name in ("said", "true", "right"))
    if len(classes) == 2:
        told = f"it said {said} on average where {true} are '{classes[1]}', and called {right} right"
    else:
        told = f"it was {said} sure on average of the class it called, and called {right} right"
    new = "new scaffolds" if about.get("shift") == "scaffold" else "rows like these"
    warning = f": read its probabilities as a ranking on {new}" if abs(held["said"] - held["true"]) > _APART else ""
    return f"On the held-out rows {told}{warning}."


def limit_words(model: FittedModel) -> str:
    """From which probability on a row is called yes, and why from there."""
    counts = model.about["classes"]["training"]
    own = abs(model.threshold - counts[1] / sum(counts)) < 0.005 and counts != model.about["classes"]["drawn"]
    return f"called so above {model.threshold:.2f}{' (its share in training)' if own else ''}"


def distance_words(model: FittedModel, noun: str) -> str:
    """What the distance of a row is, and where `edge` and `far` begin."""
    far = model.familiar.far / model.familiar.unit
    return (
        f"how unusual a {noun} is for the model: one training {noun} in twenty lies above 1, which is called edge, and "
        f"one in a hundred above {far:.2f}, which is called far"
    )
