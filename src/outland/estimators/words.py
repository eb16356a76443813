"""Sentences about a model that its card, its summary and its pages share."""

from collections.abc import Mapping, Sequence
from typing import Any

METRICS = {"rocauc": "ROC-AUC", "accuracy": "share called right", "rmse": "root mean squared error"}
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
