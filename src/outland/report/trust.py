"""Whether a model should be trusted on a table, in one line."""

from typing import Any

from outland.shift import ShiftResult
from outland.training.watch import shown

# Beyond which a model is to be taken with care, and not to be trusted: GCS above chance, and shares of rows. By the
# distances' own scale one training row in a hundred is far and one in twenty unusual.
_GCS, _FAR, _UNUSUAL = (0.1, 0.4), (0.05, 0.25), (0.15, 0.5)
_ADVICE = (
    "trust the model here as far as its held-out score",
    "trust it with care, and least on the rows called edge or far",
    "do not trust it here without new labels",
)


def trust(shift: ShiftResult | None, far: float, unusual: float, about: dict[str, Any]) -> str:
    """The GCS between training and a table, the share of unusual rows, and what follows from them."""
    told = f"{unusual:.0%} of rows are unusual and {far:.0%} far (5% and 1% in training)"
    level = max(_level(far, _FAR), _level(unusual, _UNUSUAL))
    if shift is not None:
        level = max(level, _level(shift.covariate.mean - shift.null.mean - 3 * shift.null.spread, _GCS))
        told = (
            f"GCS to training {shift.covariate.mean:.2f} (chance {shift.null.mean:.2f}), told apart "
            f"{shift.accuracy.mean:.0%}; {told}"
        )
    return f"{told}: {_ADVICE[level]}{_yardstick(about)}."


def _level(value: float, limits: tuple[float, float]) -> int:
    return (value > limits[0]) + (value > limits[1])


def _yardstick(about: dict[str, Any]) -> str:
    scores = [row for row in about.get("scores", []) if row["part"] == "held out" and row["value"] is not None]
    if not scores:
        return ""
    row = scores[0]
    if row.get("scant"):
        return f" (which is not known: its held-out molecules are {row['scant']})"
    away = f", {about['held_out']['gcs']:.2f} away" if "gcs" in about.get("held_out", {}) else ""
    return f" ({row['metric']} {shown(row['value'], row['metric'])} on its held-out molecules{away})"
