from types import SimpleNamespace

from outland.report.advice import advise


def test_advice_follows_the_shift_and_the_flags():
    def measured(gcs: float) -> SimpleNamespace:
        null = SimpleNamespace(mean=0.01, spread=0.0)
        return SimpleNamespace(covariate=SimpleNamespace(mean=gcs), null=null, accuracy=SimpleNamespace(mean=0.6))

    held = {"scores": [{"part": "held out", "value": 0.7, "metric": "rocauc"}], "held_out": {"gcs": 0.2}}
    near = advise(measured(0.02), 0.01, 0.05, held)
    assert near == (
        "Trust it as far as its held-out score: 5% of the rows are unusual, that is edge or far, and 1% far (5% and 1% "
        "in training); of training and this table, 2% of the molecules are of a kind that the other has next to none "
        "of (GCS; 1% by chance), and a small network tells 60% of the two apart (50% by chance); its ROC-AUC on "
        "held-out molecules (GCS 20%) was 70.00 %."
    )
    assert "with care" in advise(measured(0.2), 0.01, 0.05, held)
    assert advise(measured(0.6), 0.01, 0.05, held).startswith("Do not trust it here without new labels: ")
    assert advise(None, 0.0, 0.0, {}).startswith("Little is new here, but how good the model is was not measured: 0%")
    assert "with care" in advise(None, 0.0, 0.2, {})
    assert advise(None, 0.3, 0.3, {}).startswith("Do not trust it")
