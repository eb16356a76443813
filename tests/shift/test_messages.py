import pytest

from outland.shift.messages import describe_shift


@pytest.mark.parametrize(
    ("covariate", "accuracy", "few", "words"),
    [
        ((0.6, 0.01, 0.0), (0.9, 0.5, 0.05), "", "There is a large covariate shift: about 60%"),
        ((0.6, 0.01, 0.0), (0.9, 0.5, 0.05), "with one trial", "With one trial that share is rough."),
        (
            (0.3, 0.1, 0.0),
            (0.55, 0.5, 0.05),
            "with 40 graphs a side",
            "With 40 graphs a side there is not enough to tell",
        ),
        ((0.3, 0.1, 0.0), (0.55, 0.5, 0.05), "", "do not agree on whether there is a covariate shift: GCS is 0.30"),
        ((0.01, 0.01, 0.0), (0.9, 0.5, 0.05), "with 40 graphs a side", "reach, as far as can be told with 40 graphs"),
        ((0.01, 0.01, 0.0), (0.5, 0.5, 0.05), "with 40 graphs a side", "With 40 graphs a side a small one could not"),
    ],
)
def test_a_shift_is_claimed_only_where_both_measures_agree(covariate, accuracy, few, words):
    sentence = describe_shift(covariate, accuracy, None, few)
    assert words in sentence
    assert ("There is a" in sentence) == (covariate[0] == 0.6)
