"""Whether a model should be trusted on a table, in one line."""

from typing import Any

from outland.estimators.words import METRICS
from outland.models.messages import format_score
from outland.shift import ShiftResult

# Beyond which a model is to be taken with care, and not to be trusted: GCS above chance, and shares of rows. By the
# distances' own scale one training row in a hundred is far and one in twenty unusual.
_GCS, _FAR, _UNUSUAL = (0.1, 0.4), (0.05, 0.25), (0.15, 0.5)
_ADVICE = (
    "Trust it as far as its held-out score",
    "Trust it with care, least on rows called edge or far",
    "Do not trust it here without new labels",
)


def trust(shift: ShiftResult | None, far: float, unusual: float, about: dict[str, Any]) -> str:
    """What to think of predictions on a table, and the numbers it follows from."""
    told = [f"{unusual:.0%} of the rows are unusual, that is edge or far, and {far:.0%} far (5% and 1% in training)"]
    level = max(_level(far, _FAR), _level(unusual, _UNUSUAL))
    if shift is not None:
        level = max(level, _level(shift.covariate.mean - shift.null.mean - 3 * shift.null.spread, _GCS))
        told.append(
            f"of training and this table, {shift.covariate.mean:.0%} of the molecules are of a kind that the other has "
            f"next to none of (GCS; {shift.null.mean:.0%} by chance), and a small network tells "
            f"{shift.accuracy.mean:.0%} of the two apart (50% by chance)"
        )
    score, judged = _yardstick(about)
    advice = _ADVICE[level] if level or judged else "Little is new here, but how good the model is was not measured"
    return f"{advice}: {'; '.join([*told, *filter(None, [score])])}."


def _level(value: float, limits: tuple[float, float]) -> int:
    return (value > limits[0]) + (value > limits[1])


def _yardstick(about: dict[str, Any]) -> tuple[str, bool]:
    """How good the model was on rows it had not seen and how far these were, and whether that is known."""
    for row in about.get("scores", []):
        if row["part"] != "held out" or row["value"] is None:
            continue
        if row.get("scant"):
            return f"its own held-out molecules were {row['scant']}", False
        away = f" (GCS {about['held_out']['gcs']:.0%})" if "gcs" in about.get("held_out", {}) else ""
        unit = "" if row["metric"] == "rmse" else " %"
        score = f"{format_score(row['value'], row['metric'])}{unit}"
        return f"its {METRICS[row['metric']]} on held-out molecules{away} was {score}", True
    return "", False
