"""Sentences about a model that its card, its summary and its pages share."""

from collections.abc import Callable, Sequence
from typing import Any

from outland.errors import listed
from outland.models.calibration import FEWEST
from outland.models.expected_error import FLAGS
from outland.models.model import TrainedModel
from outland.models.summary import PartScore

METRICS = {
    "rocauc": "ROC-AUC",
    "ap": "average precision",
    "accuracy": "share called right",
    "rmse": "root mean squared error",
}
MASK_MEANING = (
    "Stable is what the method takes to decide the label wherever it occurs; environment is the rest, which may change "
    "without changing the label."
)
_SIGNALS = {
    "dissimilarity": "Tanimoto similarity to training molecules",
    "distance": "distance of embeddings",
    "spread": "spread of the members",
    "extremity": "size of the number",
    "uncertainty": "the probability itself",
}
_LARGE = 1000  # errors from here on are shown without decimals
_MISCALIBRATED = 0.1  # difference of mean probability and observed rate above which probabilities are only a ranking


def format_score(score: float | None, metric: str) -> str:
    """A score as people read it: in per cent unless it is an error; a dash where there is none."""
    if score is None:
        return "–"
    if metric == "rmse":
        return f"{score:.3f}" if abs(score) < _LARGE else f"{score:,.0f}"
    return f"{100 * score:.2f}"


def calibration_sentence(score: PartScore, domain: str, classes: Sequence[Any]) -> str:
    """Predicted probabilities of held-out rows against what is true; empty where that is not known."""
    check = score.calibration
    if check is None or score.too_few:
        return ""
    mean, observed, right = f"{check.mean_probability:.0%}", f"{check.observed_rate:.0%}", f"{check.accuracy:.0%}"
    if len(classes) == 2:
        common, share = classes[int(check.observed_rate > 0.5)], max(check.observed_rate, 1 - check.observed_rate)
        words = (
            f"it said {mean} on average where {observed} are '{classes[1]}', and called {right} right (always "
            f"'{common}': {share:.0%})"
        )
    else:
        words = f"it was {mean} sure on average of the class it called, and called {right} right"
    new = "new scaffolds" if domain == "scaffold" else "rows like these"
    off = abs(check.mean_probability - check.observed_rate) > _MISCALIBRATED
    warning = f": read its probabilities as a ranking on {new}" if off else ""
    return f"On the held-out rows {words}{warning}."


def class_sentence(score: PartScore, name: Callable[[str], str] = str) -> str:
    """How many rows of each of several classes are called right; empty where that is not known."""
    if not score.called_right or score.too_few:
        return ""
    parts = [f"{name(each)} {right:,} of {rows:,}" for each, (right, rows) in score.called_right.items()]
    return f"Called right by class: {', '.join(parts)}."


def chance_sentence(scores: Sequence[PartScore], name: Callable[[str], str] = str) -> str:
    """For which targets the same answer for all molecules may be as good; empty where there are none."""
    poor = [name(score.target) for score in scores if score.may_be_chance]
    what = f"For {listed(poor)} it" if len(scores) > 1 else "It"
    return f"{what} may be no better than a guess on rows that it was not trained on." if poor else ""


def rare_classes(model: TrainedModel) -> list[str]:
    """Those of three or more classes that have too few training rows."""
    counts = model.training.class_counts
    if len(model.classes) < 3 or len(counts) != len(model.classes):
        return []
    return [str(name) for name, count in zip(model.classes, counts, strict=True) if count < FEWEST]


def rare_sentence(model: TrainedModel, name: Callable[[str], str] = str) -> str:
    """Which of several classes have too few training rows; empty where none has."""
    rare = [name(each) for each in rare_classes(model)]
    if not rare:
        return ""
    what = "Class {} has" if len(rare) == 1 else "Classes {} have"
    return f"{what.format(listed(rare))} fewer than {FEWEST} rows: too few to learn from or to judge by."


def calibration_phrase(model: TrainedModel) -> str:
    """How outputs become probabilities."""
    calibration = model.calibration
    fitted = (
        f"temperature {', '.join(f'{value:.2f}' for value in calibration.temperature)}, bias "
        f"{', '.join(f'{value:+.2f}' for value in calibration.offset)}"
    )
    if not calibration.reason:
        return f"Probabilities are calibrated on rows not trained on ({fitted})."
    some = "not calibrated" if len(model.targets) == 1 else f"not all calibrated ({fitted})"
    return f"Probabilities are {some}: {calibration.reason}."


def flag_sentences(model: TrainedModel, noun: str = "row") -> list[str]:
    """What the flags mean, and how wrong the model was on rows with each that it was not trained on."""
    expected = model.expected_error
    if expected is None:
        return [] if model.distance is None else [f"Flags go by the distance, which is {distance_phrase(model, noun)}."]
    unit = "called wrong" if model.classes else "off on average"
    parts = [
        f"{flag} {f'{row.error:.0%}' if model.classes else f'{row.error:.3g}'}"
        for flag, row in zip(FLAGS, expected.by_flag, strict=True)
        if row.rows
    ]
    rows = sum(row.rows for row in expected.by_flag)
    sorts = "" if expected.sorts else " The flag does not sort errors by more than chance here: do not lean on it."
    names = listed(_SIGNALS[name] for name in expected.names)
    mean = ", the mean over targets" if len(model.targets) > 1 else ""
    return [
        f"Flags go by the expected error{mean}, learned from {names}: on {rows:,} rows not trained on, "
        f"{', '.join(parts)} were {unit}.{sorts}",
    ]


def conformal_phrase(model: TrainedModel) -> str:
    """What sets or intervals are; empty where the model has none."""
    if model.conformal is None:
        return ""
    rows = int((~model.conformal.scores.isnan()).any(1).sum())
    kind = "`--coverage 0.9` adds the set of classes" if model.classes else "Low and high are the ends of the interval"
    return (
        f"{kind} that holds the truth in 90 of 100 rows like the {rows:,} it was measured on, none of them trained on; "
        "rows that are like the new table count more."
    )


def distance_phrase(model: TrainedModel, noun: str) -> str:
    """What the distance of a row is, and where flags go by it, where `edge` and `far` begin."""
    if model.distance is None:
        return "not known, for this model has no embeddings"
    far = model.distance.far / model.distance.unit
    edge, end = (", which is called edge,", ", which is called far") if model.expected_error is None else ("", "")
    return (
        f"how unusual a {noun} is for the model: one training {noun} in twenty lies above 1{edge} and "
        f"one in a hundred above {far:.2f}{end}"
    )
