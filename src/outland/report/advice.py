"""Advice on whether to trust a model's predictions on a table."""

from outland.models import Assessment
from outland.models.messages import METRICS, format_score
from outland.shift import ShiftResult

# Thresholds of the second and the third advice: GCS above its null, and shares of rows. By the definition of the flags
# one training row in a hundred is far and one in twenty unusual.
_GCS, _FAR, _UNUSUAL = (0.1, 0.4), (0.05, 0.25), (0.15, 0.5)
_ADVICE = (
    "Trust it as far as its held-out score",
    "Trust it with care, least on rows called edge or far",
    "Do not trust it here without new labels",
)


def advise(
    shift: ShiftResult | None,
    far: float | None,
    unusual: float | None,
    assessment: Assessment | None,
    noun: str = "molecule",
) -> str:
    """Advice on predictions for a table, given the shares of its rows that are far and unusual, and the reasons."""
    evidence, level = ["how unusual rows are is not known"], 0
    if far is not None and unusual is not None:
        evidence = [
            f"{unusual:.0%} of the rows are unusual, that is edge or far, and {far:.0%} far (5% and 1% in training)"
        ]
        level = max(_level(far, _FAR), _level(unusual, _UNUSUAL))
    if shift is not None:
        level = max(level, _level(shift.covariate.mean - shift.null.mean - 3 * shift.null.spread, _GCS))
        evidence.append(
            f"of training and this table, {shift.covariate.mean:.0%} of the {noun}s are of a kind that the other has "
            f"next to none of (GCS; {shift.null.mean:.0%} by chance), and a small network tells "
            f"{shift.accuracy.mean:.0%} of the two apart (50% by chance)"
        )
    score, measured = _held_out_score(assessment)
    advice = _ADVICE[level] if level or measured else "Little is new here, but how good the model is was not measured"
    return f"{advice}: {'; '.join([*evidence, *filter(None, [score])])}."


def _level(value: float, limits: tuple[float, float]) -> int:
    return (value > limits[0]) + (value > limits[1])


def _held_out_score(assessment: Assessment | None) -> tuple[str, bool]:
    """A clause on the model's held-out score, and whether there is one."""
    for score in [] if assessment is None else assessment.of("test"):
        if score.score.value is None:
            continue
        if score.too_few:
            return f"its own held-out molecules were {score.too_few}", False
        gcs = "" if assessment is None or assessment.shift is None else f" (GCS {assessment.shift.gcs:.0%})"
        unit = "" if score.metric == "rmse" else " %"
        value = f"{format_score(score.score.value, score.metric)}{unit}"
        return f"its {METRICS[score.metric]} on held-out molecules{gcs} was {value}", True
    return "", False
