"""What is said of a fit."""

from types import SimpleNamespace

from outland.estimators.judging import Judgement, Verdict
from outland.report.fit_text import difficulty_sentences, reference_sentences


def test_scores_that_differ_much_are_remarked():
    def sentences(first, last, metric="rocauc", rows=200, shift="scaffold"):
        verdicts = [
            Verdict(part, metric, rows, rows, (Judgement(value),), None, rows // 2 if metric == "rocauc" else None)
            for part, value in (("val", first), ("test", last))
        ]
        return difficulty_sentences(SimpleNamespace(verdicts=verdicts, model=SimpleNamespace(about={"shift": shift})))

    assert sentences(0.9, 0.7) == [
        "The held-out scaffolds are harder than the validation ones by 20 points: expect about the held-out score on "
        "new ones."
    ]
    assert "sizes are easier than the validation ones by 15 points" in sentences(0.7, 0.85, "accuracy", shift="size")[0]
    assert sentences(0.8, 0.71) == []
    assert sentences(0.9, None) == []
    assert sentences(0.9, 0.7, rows=18) == []
    assert sentences(0.9, 0.7, "rmse") == []


def test_no_interval_no_better():
    def sentence(difference):
        held = Verdict("test", "rocauc", 200, 8, (Judgement(0.9), Judgement(0.8)), difference, 100)
        model = SimpleNamespace(method=SimpleNamespace(name="aia"))
        (line,) = reference_sentences(SimpleNamespace(model=model, reference=model), held)
        return line

    assert sentence(Judgement(0.1)) == (
        "Against ERM, plain training: +10.0; molecules of so few scaffolds cannot tell whether that is luck."
    )
    assert sentence(Judgement(0.1, 0.05, 0.15)).endswith("on these molecules aia is better (one seed).")
    assert sentence(Judgement(0.1, -0.05, 0.15)).endswith("show no difference.")
