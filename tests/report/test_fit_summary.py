"""What is said of a fit."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from outland.estimators import FitResult, GraphRegressor
from outland.models.summary import Assessment, CalibrationCheck, Interval, PartScore, ShiftSummary
from outland.report.fit_summary import score_table, summary_sentences
from tests.models.cases import SMALL, bbbp


def part_score(part: str, score: Interval | float | None, **rest) -> PartScore:
    interval = score if isinstance(score, Interval) else Interval(value=score)
    values = {"target": "label", "metric": "rocauc", "rows": 200, "groups": 50, "rare": 100, **rest}
    return PartScore(part=part, score=interval, **values)


@pytest.fixture(scope="module")
def result(fitted):
    """A fit with these scores; ERM is the model itself, if it is there at all."""

    def make(*scores: PartScore, compare: bool = False, domain: str = "scaffold", **rest) -> FitResult:
        model = replace(
            fitted.model_,
            spec=replace(fitted.model_.spec, domain=domain),
            assessment=Assessment(scores=list(scores), **rest),
        )
        return FitResult(model, model if compare else None, 7.4)

    return make


def sentences(result: FitResult) -> list[str]:
    """What is said before the time it took."""
    lines = summary_sentences(result, Path("m"), "t.csv")
    return lines[: next(index for index, line in enumerate(lines) if line.startswith("Took"))]


def test_scores_that_differ_much_are_remarked(result):
    def remarks(first, last, domain="scaffold", **rest):
        scores = [part_score("val", first, **rest), part_score("test", last, **rest)]
        return [line for line in sentences(result(*scores, domain=domain)) if "than the validation ones" in line]

    assert remarks(0.9, 0.7) == [
        "The held-out scaffolds are harder than the validation ones by 20 points: expect about the held-out score on "
        "new ones."
    ]
    accuracy = {"metric": "accuracy", "rare": None}
    assert "sizes are easier than the validation ones by 15 points" in remarks(0.7, 0.85, "size", **accuracy)[0]
    assert remarks(0.8, 0.71) == []
    assert remarks(0.9, None) == []
    assert remarks(0.9, 0.7, rows=18, rare=9) == []
    assert remarks(0.9, 0.7, metric="rmse", rare=None, mean_error=1.0) == []


def test_no_interval_no_better(result):
    def sentence(difference, **rest):
        held_out = part_score("test", 0.9, reference=Interval(value=0.8), difference=difference, **rest)
        lines = sentences(result(part_score("val", 0.9, **rest), held_out, compare=True))
        (line,) = [line for line in lines if line.startswith("Against ERM")]
        return line

    assert sentence(Interval(value=0.1)) == (
        "Against ERM, plain training: +10.0; molecules of so few scaffolds cannot tell whether that is luck."
    )
    assert sentence(Interval(value=0.1, low=0.05, high=0.15)).endswith("on these molecules aia is better (one seed).")
    assert sentence(Interval(value=0.1, low=-0.05, high=0.15)).endswith("show no difference.")
    error = {"metric": "rmse", "rare": None, "mean_error": 1.0}
    assert sentence(Interval(value=0.1, low=0.05, high=0.15), **error) == (
        "Against ERM, plain training: +0.100 (+0.050 to +0.150); on these molecules aia is worse (one seed)."
    )


def test_how_good_a_model_is(result):
    def quality(score, domain="scaffold", **rest):
        return sentences(result(part_score("val", score, **rest), part_score("test", score, **rest), domain=domain))[0]

    assert quality(Interval(value=0.8, low=0.7, high=0.9)) == (
        "On 200 molecules of scaffolds it has not seen, it puts a '1' above a '0' in 80.00 (70.00 to 90.00) % of pairs."
    )
    assert quality(Interval(value=0.6, low=0.4, high=0.8), "random").endswith(
        " Chance gives 50: this may be no better."
    )
    assert quality(None, "size") == (
        "On 200 molecules of sizes it has not seen, it cannot be judged: they are all of one class. Another --domain "
        "may do better."
    )
    assert quality(0.8, rare=2).startswith(
        "The held-out molecules are too few to judge (2 rows of one class): at least 10"
    )
    accuracy = {"metric": "accuracy", "rare": None}
    assert quality(0.8, **accuracy) == "On 200 molecules of scaffolds it has not seen, 80.00 % are called right."


def test_the_error_of_numbers_is_compared_with_that_of_the_mean():
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles[:60], labels[:60]).model_
    scores = [part_score(part, 0.5, metric="rmse", rare=None, mean_error=0.75) for part in ("val", "test")]
    told = sentences(FitResult(replace(model, assessment=Assessment(scores=scores)), None, 1.0))
    assert told == [
        "On 200 molecules of scaffolds it has not seen, its predictions are off by 0.500; always saying the training "
        "mean is off by 0.750."
    ]


def test_the_distance_of_held_out_rows_the_time_and_what_to_do_next(result, fitted):
    shift = ShiftSummary(auc=0.77, null=0.55)
    scores = [part_score("val", 0.8), part_score("test", 0.8)]
    lines = summary_sentences(result(*scores, compare=True, shift=shift, share_far=0.25), Path("m"), "t.csv")
    assert (
        "A classifier tells a held-out molecule from a training one in 77% of pairs (at most 55% by chance); 25% are "
        "far from anything the model knows."
    ) in lines
    seconds = fitted.model_.training.seconds
    assert f"Took 7 s (aia {seconds:.0f} s for 6 epochs, ERM {seconds:.0f} s)." in lines
    after = lines[lines.index("Next:") + 1 :]
    assert [line.split("#")[0].strip() for line in after] == [
        "outland predict m NEW.csv",
        "outland explain m t.csv",
        "outland evaluate m NEW.csv",
        "outland shift --model m NEW.csv",
    ]
    assert len({line.index("#") for line in after}) == 1


def test_the_scores_stand_in_a_table_and_several_targets_have_names(result):
    check = CalibrationCheck(mean_probability=0.9, observed_rate=0.5, accuracy=0.6)
    scores = [
        part_score(part, Interval(value=0.8, low=0.7, high=0.9), target=target, calibration=check)
        for part in ("val", "test")
        for target in ("label0", "label1")
    ]
    fit = result(*scores)
    several = replace(fit.model.schema, task=replace(fit.model.task, outputs=2))
    fit = replace(fit, model=replace(fit.model, schema=several))
    told = sentences(fit)
    screen = Console(width=200)
    with screen.capture() as capture:
        screen.print(score_table(fit))
    assert [line.partition(":")[0] for line in told] == ["label0", "label0", "label1", "label1"]
    assert all("it said 90% on average where 50% are '1'" in line for line in told[1::2])
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capture.get().splitlines() if "80.00" in line]
    assert rows == [
        [part, target, "200", "80.00 (70.00 to 90.00)"]
        for part in ("validation", "held out")
        for target in ("label0", "label1")
    ]
