"""Sentences about a model."""

from dataclasses import replace

import torch

from outland.models.calibration import Calibration
from outland.models.expected_error import ExpectedError, FlagErrors
from outland.models.knn import KNNDistance
from outland.models.messages import calibration_phrase, calibration_sentence, distance_phrase, format_score
from outland.models.summary import CalibrationCheck, Interval, PartScore


def score(mean: float | None, observed: float = 0.53, accuracy: float = 0.6, rare: int = 100) -> PartScore:
    check = None
    if mean is not None:
        check = CalibrationCheck(mean_probability=mean, observed_rate=observed, accuracy=accuracy)
    value = Interval(value=0.7)
    return PartScore(
        part="test", target="y", metric="rocauc", rows=200, groups=50, score=value, rare=rare, calibration=check
    )


def test_probabilities_that_break_their_word_are_called_a_ranking():
    assert calibration_sentence(score(0.86), "scaffold", ("0", "1")) == (
        "On the held-out rows it said 86% on average where 53% are '1', and called 60% right (always '1': 53%): read "
        "its probabilities as a ranking on new scaffolds."
    )
    assert calibration_sentence(score(0.1, 0.15), "scaffold", ("0", "1")) == (
        "On the held-out rows it said 10% on average where 15% are '1', and called 60% right (always '0': 85%)."
    )
    assert calibration_sentence(score(0.9, 0.4, 0.4), "size", ("a", "b", "c")) == (
        "On the held-out rows it was 90% sure on average of the class it called, and called 40% right: read its "
        "probabilities as a ranking on rows like these."
    )
    assert calibration_sentence(score(None), "scaffold", ("0", "1")) == ""
    assert calibration_sentence(score(0.86, rare=3), "scaffold", ("0", "1")) == ""  # too few to judge


def test_scores_are_in_per_cent_and_errors_are_not():
    assert [format_score(0.12345, metric) for metric in ("rocauc", "ap", "accuracy", "rmse")] == [
        "12.35",
        "12.35",
        "12.35",
        "0.123",
    ]
    assert format_score(None, "rmse") == "–"
    assert [format_score(number, "rmse") for number in (999.9994, 658325.635)] == ["999.999", "658,326"]


def test_calibration_or_why_there_is_none(fitted):
    fits = Calibration((1.5,), (-0.25,))
    assert calibration_phrase(replace(fitted.model_, calibration=fits)) == (
        "Probabilities are calibrated on rows not trained on (temperature 1.50, bias -0.25)."
    )
    none = Calibration.identity(fitted.model_.task, "a class has 3 rows to fit them on, and 10 are needed")
    assert calibration_phrase(replace(fitted.model_, calibration=none)) == (
        "Probabilities are not calibrated: a class has 3 rows to fit them on, and 10 are needed."
    )


def test_a_method_without_embeddings_has_no_distance(fitted):
    distance: KNNDistance = fitted.model_.distance
    assert f"one in a hundred above {distance.far / distance.unit:.2f}, which is called far" in distance_phrase(
        fitted.model_, "row"
    )
    assert distance_phrase(replace(fitted.model_, distance=None), "row").startswith("not known")


def test_the_distance_makes_no_flags_where_the_expected_error_does(fitted):
    by_flag = (FlagErrors(600, 0.05), FlagErrors(250, 0.15), FlagErrors(150, 0.3))
    expected = ExpectedError(("uncertainty",), torch.zeros(1, 2), (0.0, 0.0, 0.0), 0.1, 0.2, by_flag, True)
    phrase = distance_phrase(replace(fitted.model_, expected_error=expected), "row")
    assert "one training row in twenty lies above 1 and one in a hundred above" in phrase
    assert "called" not in phrase
