"""Advice on whether to trust a model's predictions on a table: a verdict, and what it rests on under it."""

from outland.errors import counted, listed
from outland.models import Assessment, TrainedModel
from outland.models.expected_error import FLAGS
from outland.models.messages import METRICS, chance_sentence, flag_sentences, format_score, rare_sentence
from outland.models.summary import PartScore
from outland.models.table_predictions import TableReport
from outland.models.uncertainty import has_flags
from outland.shift import ShiftResult
from outland.shift.two_sample import TwoSample

# Shares of far and of unusual (edge or far) rows, and GCS above its null, from which on to take care and to distrust.
# By the definition of the flags, 15 % of out-of-fold rows are far and 40 % unusual where flags go by expected errors,
# and 1 % and 5 % of training rows where they go by distances.
_BY_ERROR = ((0.30, 0.60), (0.60, 0.85))
_BY_DISTANCE = ((0.05, 0.25), (0.15, 0.5))
_GCS = (0.1, 0.4)
_MORE_ERRORS = 1.25  # times the error of held-out rows, from which on care is due
_APART = 0.9  # ROC-AUC from which on a classifier tells a table from training so well that care is due
_VERDICTS = (
    "Trust it as far as its held-out score.",
    "Trust it with care, least on rows called edge or far.",
    "Do not trust it here without new labels.",
)
_MOST_ELEMENTS = 5  # that are named
_UNKNOWN = "Little is new here, but how good the model is was not measured."
_CARE = "Trust it with care: which of these rows are unusual is not known."
_NOTHING = "Take it as a guess: neither how good the model is nor which of these rows are unusual is known."


def advise(
    model: TrainedModel, report: TableReport, shift: TwoSample | None = None, gcs: ShiftResult | None = None
) -> list[str]:
    """The verdict on predictions for a table, and lines on what it rests on."""
    level, evidence = 0, []
    if has_flags(model):
        far, unusual = report.share("far"), report.share("edge", "far")
        limits = _BY_DISTANCE if model.expected_error is None else _BY_ERROR
        level = max(_level(far, limits[0]), _level(unusual, limits[1]))
        evidence.append(f"{unusual:.0%} of the rows are unusual, that is edge or far, and {far:.0%} far.")
        evidence += flag_sentences(model) if model.expected_error is not None else []
        if (errors := _mean_errors(model, report)) is not None:
            level = max(level, int(errors[0] > _MORE_ERRORS * errors[1]))
            evidence.append(_mean_errors_sentence(model, *errors))
    else:
        level = 1
    if report.with_unseen:
        evidence.append(_unseen_sentence(report, is_far=has_flags(model)))
    if shift is not None:
        level = max(level, int(shift.is_shifted and shift.auc > _APART))
        evidence.append(_shift_sentence(shift, model.kind[:-1], model.assessment))
    if gcs is not None:
        level = max(level, _level(gcs.covariate.mean - gcs.null.mean - 3 * gcs.null.spread, _GCS))
        evidence.append(
            f"Of training and this table, {gcs.covariate.mean:.0%} of the {model.kind} are of a kind that the other "
            f"has next to none of (GCS; {gcs.null.mean:.0%} by chance)."
        )
    scores = [] if model.assessment is None else model.assessment.of("test")
    evidence += filter(None, [_held_out_score(scores), chance_sentence(scores), rare_sentence(model)])
    return [_verdict(model, level), *(f"  {line}" for line in evidence)]


def _mean_errors(model: TrainedModel, report: TableReport) -> tuple[float, float] | None:
    """Mean error to expect on a table by its flags, and that on held-out rows; None where flags do not tell."""
    expected = model.expected_error
    if expected is None or not expected.sorts or not all(row.rows for row in expected.by_flag):
        return None
    rows = sum(row.rows for row in expected.by_flag)
    here = sum(report.share(flag) * row.error for flag, row in zip(FLAGS, expected.by_flag, strict=True))
    return here, sum(row.rows * row.error for row in expected.by_flag) / rows


def _mean_errors_sentence(model: TrainedModel, here: float, held_out: float) -> str:
    """What to expect of a table beside what was seen on held-out rows."""
    if model.classes:
        return (
            f"By these, expect {here:.0%} of this table to be called wrong, where {held_out:.0%} of held-out rows were."
        )
    return f"By these, expect errors of {here:.3g} on average in this table, where held-out rows had {held_out:.3g}."


def _verdict(model: TrainedModel, level: int) -> str:
    """Whether to trust it, by how unusual the rows are and how good the model was, for each target."""
    good, poor, unknown = ([], [], []) if model.assessment is None else model.assessment.by_worth()
    level = 2 if poor and not good else level
    if has_flags(model) or level > 1:
        verdict = _VERDICTS[level] if level or good else _UNKNOWN
    else:
        verdict = _CARE if good else _NOTHING
    if poor and level < 2:
        verdict = f"{verdict[:-1]}, and do not trust it for {listed(score.target for score in poor)}."
    if unknown and (good or poor):
        verdict = f"{verdict[:-1]}; how good it is for {listed(score.target for score in unknown)} was not measured."
    return verdict


def _level(value: float, limits: tuple[float, float]) -> int:
    return (value > limits[0]) + (value > limits[1])


def _unseen_sentence(report: TableReport, is_far: bool) -> str:
    """Which elements of a table no training molecule has, the most frequent first."""
    shown = [f"{symbol} in {count:,}" for symbol, count in report.unseen.most_common(_MOST_ELEMENTS)]
    rest = len(report.unseen) - len(shown)
    names = ", ".join([*shown, f"and {rest} more"] if rest else shown)
    verb = "has an element" if report.with_unseen == 1 else "have elements"
    far = f"; {'it is' if report.with_unseen == 1 else 'they are'} called far" if is_far else ""
    return f"{counted(report.with_unseen, 'row')} {verb} that no training molecule has ({names}){far}."


def _shift_sentence(shift: TwoSample, noun: str, assessment: Assessment | None) -> str:
    if not shift.is_shifted:
        pairs = f"{shift.auc:.0%} of pairs" if shift.auc > 0.5 else "fewer than half of the pairs"
        return f"A classifier cannot tell its {noun}s from training ones ({pairs}; chance gives 50%)."
    held_out = (
        "" if assessment is None or assessment.shift is None else f"; {assessment.shift.auc:.0%} of held-out ones"
    )
    return (
        f"A classifier tells a {noun} of this table from a training one in {shift.auc:.0%} of pairs (at most "
        f"{shift.null[1]:.0%} by chance{held_out})."
    )


def _held_out_score(scores: list[PartScore]) -> str:
    """A sentence on the model's held-out scores, of all targets that have one."""
    scores = [score for score in scores if score.score.value is not None]
    if len(scores) == 1 and scores[0].too_few:
        return f"Its own held-out molecules were {scores[0].too_few}."
    if len(scores) == 1:
        return f"Its {METRICS[scores[0].metric]} on held-out molecules was {_in_unit(scores[0])}."
    texts = [f"{score.target} {score.too_few or f'{METRICS[score.metric]} {_in_unit(score)}'}" for score in scores]
    return f"On its own held-out molecules: {'; '.join(texts)}." if texts else ""


def _in_unit(score: PartScore) -> str:
    assert score.score.value is not None
    return format_score(score.score.value, score.metric) + ("" if score.metric == "rmse" else " %")
