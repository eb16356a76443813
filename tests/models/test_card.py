"""The model card."""

from dataclasses import replace

from outland.models.card import card, escape
from outland.models.messages import calibration_phrase
from outland.models.summary import Assessment, CalibrationCheck, Interval, PartScore


def part_score(part: str, value: float, rare: int, **rest) -> PartScore:
    return PartScore(
        part=part, target="a_b", metric="rocauc", rows=100, groups=50, score=Interval(value=value), rare=rare, **rest
    )


def test_the_card_says_how_a_model_was_trained_and_how_to_read_it(fitted, model_folder):
    model = fitted.model_
    text = (model_folder / "README.md").read_text()
    assert text == card(model)
    assert "# Model of memory" in text
    assert "Reads molecules and answers with one of the classes 0, 1. Trained by aia (" in text
    assert "A row's probability is that of 1; it is called so above one half" in text
    assert "Stable is what the method takes to decide the label" in text
    assert calibration_phrase(model) in text
    assert f"6 epochs, the best one (number {model.training.best_epoch + 1})" in text  # from 1 on
    no, yes = model.training.class_counts
    assert f"- classes in training: 0 {no}, 1 {yes}" in text
    assert "rare classes were drawn more often" in text
    assert f"seed 0; run {model.spec.key}" in text
    assert "## How good it is" not in text
    assert "not the file" not in text


def test_the_card_has_scores_where_they_were_taken(fitted):
    check = CalibrationCheck(mean_probability=0.5, observed_rate=0.55, accuracy=0.7)
    interval = Interval(value=0.8, low=0.7, high=0.9)
    scores = [
        part_score("val", 0.9, 3),
        part_score("test", 0.8, 30, calibration=check, reference=Interval(value=0.75)).model_copy(
            update={"score": interval}
        ),
    ]
    text = card(replace(fitted.model_, assessment=Assessment(scores=scores)))
    assert "| validation | a\\_b | ROC-AUC | too few to judge (3 rows of one class) | – | 50.00 |" in text
    assert "| held out | a\\_b | ROC-AUC | 80.00 | 70.00 to 90.00 | 50.00 |" in text
    sentence = "On the held-out rows it said 50% on average where 55% are '1', and called 70% right (always '1': 55%)."
    assert f"\n\n{sentence}" in text
    assert "than a guess" not in text


def test_the_card_has_a_sentence_for_each_target_and_says_what_may_be_a_guess(fitted):
    check = CalibrationCheck(mean_probability=0.5, observed_rate=0.55, accuracy=0.7)
    good = part_score("test", 0.8, 30, calibration=check)
    poor = part_score("test", 0.6, 30, calibration=check).model_copy(
        update={"target": "c", "score": Interval(value=0.6, low=0.4, high=0.8)}
    )
    text = card(replace(fitted.model_, assessment=Assessment(scores=[good, poor])))
    assert "\n\nFor c it may be no better than a guess on rows that it was not trained on." in text
    assert [name for name in ("a\\_b", "c") if f"\n\n**{name}**: On the held-out rows" in text] == ["a\\_b", "c"]


def test_seeds_of_one_contender_are_one_entry(fitted):
    (member,) = fitted.model_.members
    text = card(replace(fitted.model_, members=(member,) * 3, weights=(0.5, 0.25, 0.25)))
    assert "The mean of 3 models, trained with outland: 100% aia (3 seeds); held-out rows" in text


def test_the_card_mentions_held_out_rows_without_a_finite_prediction(fitted):
    scores = [part_score("test", 0.8, 30, not_finite=1)]
    text = card(replace(fitted.model_, assessment=Assessment(scores=scores)))
    assert "\na\\_b: 1 more row left out, whose predictions are not finite.\n" in text


def test_names_mean_nothing_in_markdown():
    assert escape("<b>|_x_`\n[1]*#\\") == "\\<b\\>\\|\\_x\\_' \\[1\\]\\*\\#\\\\"
