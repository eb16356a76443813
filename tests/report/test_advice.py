from types import SimpleNamespace

from outland.models.summary import Assessment, Interval, PartScore, ShiftSummary
from outland.report.advice import advise


def assessment(value: float | None, shift: ShiftSummary | None = None, rows: int = 200, **rest) -> Assessment:
    score = {"target": "y", "metric": "rocauc", "rows": rows, "groups": rows, "rare": rows // 2, **rest}
    return Assessment(
        scores=[PartScore(part=part, score=Interval(value=value), **score) for part in ("val", "test")], shift=shift
    )


def test_advice_follows_the_shift_and_the_flags():
    def measured(gcs: float) -> SimpleNamespace:
        null = SimpleNamespace(mean=0.01, spread=0.0)
        return SimpleNamespace(covariate=SimpleNamespace(mean=gcs), null=null, accuracy=SimpleNamespace(mean=0.6))

    held = assessment(0.7, ShiftSummary(gcs=0.2, null=0.0, domain_accuracy=0.5))
    near = advise(measured(0.02), 0.01, 0.05, held)
    assert near == (
        "Trust it as far as its held-out score: 5% of the rows are unusual, that is edge or far, and 1% far (5% and 1% "
        "in training); of training and this table, 2% of the molecules are of a kind that the other has next to none "
        "of (GCS; 1% by chance), and a small network tells 60% of the two apart (50% by chance); its ROC-AUC on "
        "held-out molecules (GCS 20%) was 70.00 %."
    )
    assert "with care" in advise(measured(0.2), 0.01, 0.05, held)
    assert advise(measured(0.6), 0.01, 0.05, held).startswith("Do not trust it here without new labels: ")
    assert advise(None, 0.0, 0.0, None).startswith("Little is new here, but how good the model is was not measured: 0%")
    assert "with care" in advise(None, 0.0, 0.2, None)
    assert advise(None, 0.3, 0.3, None).startswith("Do not trust it")


def test_advice_on_a_model_that_could_not_be_judged_says_so():
    few = advise(None, 0.0, 0.0, assessment(0.7, rows=12))
    assert few.startswith("Little is new here, but how good the model is was not measured: ")
    assert few.endswith("; its own held-out molecules were too few to judge (12 rows).")
    assert advise(None, 0.0, 0.0, assessment(0.7)).endswith("; its ROC-AUC on held-out molecules was 70.00 %.")
    numbers = advise(None, 0.0, 0.0, assessment(0.7, metric="rmse", rare=None))
    assert numbers.endswith("; its root mean squared error on held-out molecules was 0.700.")
    assert "not measured" in advise(None, 0.0, 0.0, assessment(None))


def test_a_model_without_distances_knows_nothing_of_unusual_rows():
    assert advise(None, None, None, None) == (
        "Little is new here, but how good the model is was not measured: how unusual rows are is not known."
    )
    assert advise(None, None, None, assessment(0.7)).startswith(
        "Trust it as far as its held-out score: how unusual rows are is not known; its ROC-AUC"
    )
