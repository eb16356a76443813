"""What is said of a fit."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from outland.estimators import FitResult, GraphRegressor
from outland.models.comparison import STACK, Comparison, ContenderScore, ReliabilityBin
from outland.models.plain import Interval
from outland.models.summary import Assessment, CalibrationCheck, PartScore
from outland.report.fit_summary import advice, contender_table, summary_sentences
from tests.models.cases import SMALL, bbbp


def part_score(score: Interval | float | None, **rest) -> PartScore:
    interval = score if isinstance(score, Interval) else Interval(value=score)
    values = {"target": "label", "metric": "rocauc", "rows": 200, "groups": 50, "rare": 100, **rest}
    return PartScore(part="test", score=interval, **values)


def comparison(**rest) -> Comparison:
    """The weighted mean of a forest and ERM is delivered."""
    rows = [
        (STACK, Interval(value=0.85, low=0.8, high=0.9), Interval(value=0.0, low=0.0, high=0.0), 0.4, None, None, 0.0),
        ("forest", Interval(value=0.84), Interval(value=-0.01, low=-0.03, high=0.005), 0.41, 0.75, None, 12.0),
        ("erm", Interval(value=0.8), Interval(value=-0.05), 0.45, 0.25, 17, 100.4),
        ("aia", Interval(value=None), Interval(value=None), 0.6, 0.0, 20, 200.0),
    ]
    names = ("name", "score", "difference", "loss", "weight", "epochs", "seconds")
    contenders = [ContenderScore(**dict(zip(names, row, strict=True))) for row in rows]
    values = {"metric": "rocauc", "rows": 200, "folds": 5, "delivered": STACK, "reason": "it is the best"}
    return Comparison(contenders=contenders, **(values | {"calibration_error": 0.03} | rest))


@pytest.fixture(scope="module")
def result(fitted):
    """A fit with these scores."""

    def make(*scores: PartScore, domain: str = "scaffold", compared: Comparison | None = None) -> FitResult:
        spec = replace(fitted.model_.spec, domain=domain)
        assessment = Assessment(scores=list(scores), comparison=compared)
        return FitResult(replace(fitted.model_, spec=spec, assessment=assessment), 7.4)

    return make


def sentences(result: FitResult) -> list[str]:
    """What is said before the time it took."""
    lines = summary_sentences(result, Path("m"), "t.csv")
    return lines[: next(index for index, line in enumerate(lines) if line.startswith("Took"))]


def cells(table) -> list[list[str]]:
    screen = Console(width=200)
    with screen.capture() as capture:
        screen.print(table)
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in capture.get().splitlines() if "│" in line]


def test_contenders_stand_in_a_table():
    assert cells(contender_table(comparison())) == [
        ["weighted mean", "85.00 (80.00 to 90.00)", "delivered", "0.400", "", ""],
        ["forest", "84.00", "-1.00 (-3.00 to +0.50)", "0.410", "75%", "12 s"],
        ["ERM, 17 epochs", "80.00", "-5.00", "0.450", "25%", "100 s"],
        ["AIA, 20 epochs", "–", "–", "0.600", "0%", "200 s"],
    ]
    numbers = comparison(metric="rmse", delivered="forest")
    assert cells(contender_table(numbers))[:2] == [
        ["weighted mean", "0.850 (0.800 to 0.900)", "+0.000 (+0.000 to +0.000)", "0.400", "", ""],
        ["forest", "0.840", "delivered", "0.410", "75%", "12 s"],
    ]


def test_how_good_a_model_is(result):
    def quality(score, domain="scaffold", **rest):
        return sentences(result(part_score(score, **rest), domain=domain))[0]

    assert quality(Interval(value=0.8, low=0.7, high=0.9)) == (
        "On 200 molecules of scaffolds it has not seen, it ranks '1' above '0' in 80.00 (70.00 to 90.00) % of pairs."
    )
    assert quality(None, "size") == (
        "On 200 molecules of sizes it has not seen, it cannot be judged: they are all of one class. More labels are "
        "needed."
    )
    assert quality(0.8, "column").startswith(
        "On your 200 molecules called test, which were neither trained on nor chosen by, it ranks"
    )
    assert quality(0.8, rare=2) == (
        "The held-out molecules are too few to judge (2 rows of one class): at least 10 molecules of each class are "
        "needed."
    )
    accuracy = {"metric": "accuracy", "rare": None}
    assert (
        quality(0.8, "random", **accuracy) == "On 200 molecules drawn at random and not seen, 80.00 % are called right."
    )
    common = quality(0.8, "random", called_right={"a": [70, 75], "b": [10, 25]}, **accuracy)
    assert common.endswith("80.00 % are called right; always saying the commonest class is right in 75.00 %.")


def test_what_was_delivered_and_left_out_is_said(result):
    compared = comparison(left_out={"aia": "9 min of processor time would be needed"}, notes=["one", "two"])
    assert sentences(result(part_score(0.8), compared=compared))[-3:] == [
        "Delivered: it is the best.",
        "Left out: aia (9 min of processor time would be needed).",
        "For want of time, one; two.",
    ]


def test_the_error_of_numbers_is_compared_with_that_of_the_mean():
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles[:60], labels[:60]).model_
    score = part_score(0.5, metric="rmse", rare=None, mean_error=0.75)
    assert sentences(FitResult(replace(model, assessment=Assessment(scores=[score])), 1.0)) == [
        "On 200 molecules of scaffolds it has not seen, its predictions are off by 0.500; always saying the training "
        "mean is off by 0.750."
    ]


def test_the_time_what_to_do_next_and_one_sentence_of_advice(result, fitted):
    lines = summary_sentences(result(part_score(0.8), compared=comparison()), Path("m"), "t.csv")
    rows = fitted.model_.training.graphs["train"]
    assert f"Took 7 s; the model has seen all {rows:,} rows." in lines
    after = lines[lines.index("Next:") + 1 : -1]
    assert [line.split("#")[0].strip() for line in after] == [
        "outland predict m NEW.csv",
        "outland explain m t.csv",
        "outland evaluate m NEW.csv",
        "outland shift --model m NEW.csv",
    ]
    assert len({line.index("#") for line in after}) == 1
    assert lines[-1] == "Advice: use it for new scaffolds, and expect about ROC-AUC 80 %."


def test_advice_warns_where_it_should(result):
    assert advice(result(part_score(0.8, rare=2))).startswith("get more labels before you rely on it")
    assert advice(result(part_score(Interval(value=0.6, low=0.45, high=0.7)))) == (
        "do not rely on it for new scaffolds: it may be no better than a guess."
    )
    number = part_score(Interval(value=0.9, low=0.8, high=1.1), metric="rmse", rare=None, mean_error=1.0)
    assert advice(result(number, domain="size")).startswith("do not rely on it for new sizes")
    off = comparison(calibration_error=0.2, left_out={"aia": "no time"})
    assert advice(result(part_score(0.8), compared=off)) == (
        "use it for new scaffolds, and expect about ROC-AUC 80 %; read its probabilities as a ranking, for they are "
        "off by 0.20 on average; with more --minutes it would try aia too."
    )
    failed = result(part_score(0.8), compared=comparison(failed={"aia": "no training row is of class 1"}))
    assert "--minutes" not in advice(failed)
    assert "Left out: aia (no training row is of class 1)." in sentences(failed)
    wide = part_score(Interval(value=0.98, low=0.71, high=99.7), metric="rmse", rare=None)
    assert advice(result(wide)) == "use it for new scaffolds, and expect about an error of 0.98 (0.71 to 100)."


def test_a_share_called_right_is_compared_with_that_of_the_commonest_class(result):
    def of(low: float) -> str:
        score = Interval(value=0.8, low=low, high=0.9)
        by_class = {"a": [70, 75], "b": [10, 25]}
        return advice(result(part_score(score, metric="accuracy", rare=None, called_right=by_class)))

    assert of(0.7) == "do not rely on it for new scaffolds: it may be no better than a guess."
    assert of(0.76) == "use it for new scaffolds, and expect about 80 % (76 to 90) called right."


def test_a_class_of_few_rows_is_no_class_to_rely_on(result):
    by_class = {"low": [153, 180], "mid": [170, 212], "high": [1, 8]}
    score = part_score(0.81, metric="accuracy", rare=None, called_right=by_class)
    fit = result(score)
    training = fit.model.training.model_copy(update={"class_counts": [180, 212, 8]})
    model = replace(fit.model, classes=("low", "mid", "high"), training=training)
    told = sentences(replace(fit, model=model))
    assert "Called right by class: low 153 of 180, mid 170 of 212, high 1 of 8." in told
    assert "Class high has fewer than 10 rows: too few to learn from or to judge by." in told
    assert advice(replace(fit, model=model)) == (
        "use it for new scaffolds, and expect about 81 % called right; do not rely on it for class high: too few rows "
        "have it."
    )


def test_advice_on_several_targets_is_by_target(result):
    good, better = part_score(0.8, target="A"), part_score(0.9, target="B")
    poor = part_score(Interval(value=0.6, low=0.45, high=0.7), target="C")
    few = part_score(0.8, rare=2, target="D")
    assert (
        advice(result(good, better)) == "use it for new scaffolds, and expect about ROC-AUC 80 % for A and 90 % for B."
    )
    assert advice(result(good, poor, few)) == (
        "use it for new scaffolds, and expect about ROC-AUC 80 % for A; do not rely on C for new scaffolds: it may be "
        "no better than a guess; get more labels of D before you rely on it there."
    )
    assert advice(result(few, few)).startswith("get more labels before you rely on it;")


def test_too_few_rows_show_no_scores(result):
    table = cells(contender_table(comparison().without_scores()))
    assert [row[1:3] for row in table] == [["–", "delivered"], ["–", "–"], ["–", "–"], ["–", "–"]]
    assert table[1][3] == "0.410"
    hidden = comparison(reliability=[ReliabilityBin(mean_probability=0.5, observed_rate=0.4, rows=9)]).without_scores()
    assert (hidden.reliability, hidden.calibration_error) == ([], None)


def test_several_targets_have_names(result):
    check = CalibrationCheck(mean_probability=0.9, observed_rate=0.5, accuracy=0.6)
    fit = result(*(part_score(0.8, target=target, calibration=check) for target in ("label0", "label1")))
    several = replace(fit.model.schema, task=replace(fit.model.task, outputs=2))
    told = sentences(replace(fit, model=replace(fit.model, schema=several)))
    assert [line.partition(":")[0] for line in told] == ["label0", "label0", "label1", "label1"]
    assert all("it said 90% on average where 50% are '1'" in line for line in told[1::2])


def test_the_advice_on_several_classes_is_a_share(result):
    lines = summary_sentences(result(part_score(0.8, metric="accuracy", rare=None)), Path("m"), "t.csv")
    assert lines[-1] == "Advice: use it for new scaffolds, and expect about 80 % called right."
