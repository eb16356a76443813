"""Whether a model should be trusted on a table, in one line."""

from typing import Any

from outland.shift import ShiftResult
from outland.training.watch import shown

_SOME, _MUCH = 0.1, 0.4  # of GCS beyond chance
_SOME_FAR, _MUCH_FAR = 0.05, 0.25  # of rows that are far; one in a hundred training rows is


def trust(shift: ShiftResult | None, far: float, about: dict[str, Any]) -> str:
    """The GCS between training and a table, the share of far rows, and what follows from them."""
    told = f"{far:.0%} of rows are far from training"
    level = (far > _SOME_FAR) + (far > _MUCH_FAR)
    if shift is not None:
        beyond = shift.covariate.mean - max(shift.null.mean, 0) - 3 * shift.null.spread
        level = max(level, (beyond > _SOME) + (beyond > _MUCH))
        told = f"GCS to training {shift.covariate.mean:.2f} (chance {shift.null.mean:.2f}); {told}"
    advice = (
        "trust the model here as far as its held-out score",
        "trust it with care: check the rows called edge or far",
        "do not trust it here without new labels",
    )[level]
    return f"{told}: {advice}{_yardstick(about)}."


def _yardstick(about: dict[str, Any]) -> str:
    scores = [row for row in about.get("scores", []) if row["part"] == "held out" and row["value"] is not None]
    if not scores:
        return ""
    row = scores[0]
    away = f", {about['held_out']['gcs']:.2f} away" if "gcs" in about.get("held_out", {}) else ""
    return f" ({row['metric']} {shown(row['value'], row['metric'])} on its held-out molecules{away})"
