"""Advice on whether to trust predictions."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from outland.models.expected_error import ExpectedError, FlagErrors
from outland.models.summary import Assessment, Interval, PartScore, ShiftSummary
from outland.models.table_predictions import TableReport
from outland.report.advice import advise
from outland.shift.two_sample import TwoSample
from tests.report.cases import chance_score

TRUST, CARE, DISTRUST = (
    "Trust it as far as its held-out score.",
    "Trust it with care, least on rows called edge or far.",
    "Do not trust it here without new labels.",
)


def assessment(value: float | None, shift: ShiftSummary | None = None, rows: int = 200, **rest) -> Assessment:
    score = {"target": "y", "metric": "rocauc", "rows": rows, "groups": rows, "rare": rows // 2, **rest}
    return Assessment(
        scores=[PartScore(part=part, score=Interval(value=value), **score) for part in ("val", "test")], shift=shift
    )


def report(near: int, edge: int = 0, far: int = 0) -> TableReport:
    return TableReport(Path("out.csv"), rows=near + edge + far, flags=Counter(near=near, edge=edge, far=far))


def outcome(auc: float, p: float = 0.005) -> TwoSample:
    return TwoSample(auc, (0.5, 0.55), p, (500, 300), 0.3)


@pytest.fixture
def judged(fitted):
    return replace(fitted.model_, assessment=assessment(0.7, ShiftSummary(auc=0.66, null=0.55)))


def test_the_verdict_comes_first_and_the_reasons_under_it(judged):
    assert advise(judged, report(95, 4, 1), outcome(0.6)) == [
        TRUST,
        "  5% of the rows are unusual, that is edge or far, and 1% far.",
        "  A classifier tells a molecule of this table from a training one in 60% of pairs (at most 55% by chance; 66% "
        "of held-out ones).",
        "  Its ROC-AUC on held-out molecules was 70.00 %.",
    ]
    alike = advise(judged, report(95, 4, 1), outcome(0.51, 0.4))
    assert alike[2] == "  A classifier cannot tell its molecules from training ones (51% of pairs; chance gives 50%)."


def test_the_verdict_follows_flags_and_shift(judged):
    assert advise(judged, report(80, 20))[0] == CARE
    assert advise(judged, report(70, 0, 30))[0] == DISTRUST
    assert advise(judged, report(100), outcome(0.95))[0] == CARE
    assert advise(judged, report(100), outcome(0.95, 0.3))[0] == TRUST

    def measured(gcs: float) -> SimpleNamespace:
        null = SimpleNamespace(mean=0.01, spread=0.0)
        return SimpleNamespace(covariate=SimpleNamespace(mean=gcs), null=null)

    verdicts = [advise(judged, report(100), None, measured(gcs))[0] for gcs in (0.02, 0.2, 0.6)]
    assert verdicts == [TRUST, CARE, DISTRUST]
    assert "2% of the molecules are of a kind" in advise(judged, report(100), None, measured(0.02))[2]


def test_elements_that_training_never_had_are_named(judged):
    table = report(98, 0, 2)
    table.unseen.update({"Sn": 2, "Ba": 1})
    table.with_unseen = 2
    line = "  2 rows have elements that no training molecule has (Sn in 2, Ba in 1); they are called far."
    assert advise(judged, table)[2] == line
    without_flags = replace(judged, distance=None)
    table.unseen.update({"Hg": 1, "Pb": 1, "Bi": 1, "U": 1})
    table.with_unseen = 1
    names = "Sn in 2, Ba in 1, Hg in 1, Pb in 1, Bi in 1, and 1 more"
    assert advise(without_flags, table)[1] == f"  1 row has an element that no training molecule has ({names})."


def test_flags_by_expected_errors_have_shares_of_their_own(judged):
    by_flag = (FlagErrors(600, 0.05), FlagErrors(250, 0.15), FlagErrors(150, 0.3))
    expected = ExpectedError(("uncertainty",), torch.zeros(1, 2), (0.0, 0.0, 0.0), 0.1, 0.2, by_flag, True)
    model = replace(judged, expected_error=expected)
    lines = advise(model, report(60, 25, 15))
    assert lines[0] == TRUST
    assert "on 1,000 rows not trained on, near 5%, edge 15%, far 30% were called wrong." in lines[2]
    assert advise(model, report(50, 10, 40))[0] == CARE
    assert advise(model, report(10, 20, 70))[0] == DISTRUST
    useless = advise(replace(judged, expected_error=replace(expected, sorts=False)), report(60, 25, 15))
    assert useless[2].endswith("The flag does not sort errors by more than chance here: do not lean on it.")


def test_a_table_with_more_errors_to_expect_than_held_out_rows_is_for_care(judged):
    """Held-out rows had 11.25 % wrong: 600 of 5 %, 250 of 15 %, 150 of 30 %."""
    by_flag = (FlagErrors(600, 0.05), FlagErrors(250, 0.15), FlagErrors(150, 0.3))
    expected = ExpectedError(("uncertainty",), torch.zeros(1, 2), (0.0, 0.0, 0.0), 0.1, 0.2, by_flag, True)
    model = replace(judged, expected_error=expected)
    alike, worse = advise(model, report(60, 20, 20)), advise(model, report(45, 30, 25))
    assert alike[3] == "  By these, expect 12% of this table to be called wrong, where 11% of held-out rows were."
    assert worse[3] == "  By these, expect 14% of this table to be called wrong, where 11% of held-out rows were."
    assert (alike[0], worse[0]) == (TRUST, CARE)
    by_flag = (FlagErrors(600, 0.05), FlagErrors(0, float("nan")), FlagErrors(150, 0.3))
    unknown = advise(replace(judged, expected_error=replace(expected, by_flag=by_flag)), report(45, 30, 25))
    assert unknown[0] == TRUST
    assert not any("expect" in line and "called wrong, where" in line for line in unknown)


def test_advice_on_a_model_that_could_not_be_judged_says_so(fitted):
    def last(**rest) -> str:
        return advise(replace(fitted.model_, assessment=assessment(**rest)), report(100))[-1]

    unknown = "Little is new here, but how good the model is was not measured."
    few = replace(fitted.model_, assessment=assessment(0.7, rows=12))
    assert advise(few, report(100))[0] == unknown
    assert last(value=0.7, rows=12) == "  Its own held-out molecules were too few to judge (12 rows)."
    numbers = last(value=0.7, metric="rmse", rare=None)
    assert numbers == "  Its root mean squared error on held-out molecules was 0.700."
    assert advise(replace(fitted.model_, assessment=assessment(None)), report(100))[0] == unknown


def test_what_a_table_has_in_common_with_training_is_no_number_below_one_half(judged):
    assert "(fewer than half of the pairs; chance gives 50%)" in advise(judged, report(100), outcome(0.14, 0.9))[2]


def test_a_model_that_may_guess_is_not_trusted(judged):
    guess = chance_score("A")
    lines = advise(replace(judged, assessment=Assessment(scores=[guess])), report(95, 4, 1))
    assert (lines[0], lines[-1]) == (
        DISTRUST,
        "  It may be no better than a guess on rows that it was not trained on.",
    )
    good = guess.model_copy(update={"target": "B", "score": Interval(value=0.8, low=0.7, high=0.9)})
    lines = advise(replace(judged, assessment=Assessment(scores=[guess, good])), report(95, 4, 1))
    assert (lines[0], lines[-1]) == (
        "Trust it as far as its held-out score, and do not trust it for A.",
        "  For A it may be no better than a guess on rows that it was not trained on.",
    )


def test_a_model_without_distances_knows_nothing_of_unusual_rows(fitted):
    nothing = replace(fitted.model_, distance=None, assessment=None)
    assert advise(nothing, report(100)) == [
        "Take it as a guess: neither how good the model is nor which of these rows are unusual is known."
    ]
    measured = replace(nothing, assessment=assessment(0.7))
    assert advise(measured, report(100))[0] == "Trust it with care: which of these rows are unusual is not known."


def test_every_target_that_was_judged_is_named(fitted):
    scores = [
        PartScore(
            part="test", target=name, metric="rocauc", rows=rows, groups=9, rare=rows // 2, score=Interval(value=value)
        )
        for name, rows, value in (("first", 200, 0.7), ("second", 200, 0.912), ("third", 8, 0.5), ("fourth", 0, None))
    ]
    lines = advise(replace(fitted.model_, assessment=Assessment(scores=scores)), report(95, 4, 1))
    few = scores[2].too_few
    assert lines[0] == "Trust it as far as its held-out score; how good it is for third and fourth was not measured."
    assert lines[-1] == f"  On its own held-out molecules: first ROC-AUC 70.00 %; second ROC-AUC 91.20 %; third {few}."
    none = Assessment(scores=scores[2:])
    assert advise(replace(fitted.model_, assessment=none), report(95, 4, 1))[0].startswith("Little is new here")
