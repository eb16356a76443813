import pytest

from outland.tables.cells import is_missing, is_quantity, parse_limit, parse_yes_no


@pytest.mark.parametrize(
    ("text", "number"), [(">10", 10), ("<= 5.5", 5.5), ("≥1e3", 1000), (" > 3,5", 3.5), ("<-2", -2)]
)
def test_limits_have_a_number(text, number):
    assert parse_limit(text) == number


@pytest.mark.parametrize("text", ["10", ">", "> many", "a>5", "", ">nan>"])
def test_other_texts_are_no_limits(text):
    assert parse_limit(text) is None


def test_numbers_and_limits_with_something_beside_them():
    texts = ["3.2 uM", ">10 nM", "< 5%", ".5 nM", "~7 nM", "2.3 ± 0.1", "10,573", "1e3M"]
    assert all(map(is_quantity, texts))
    assert not any(map(is_quantity, ["3.2", ">10", "<= 5.5", "1e3", "uM", "> many", "", "+", "-"]))


def test_words_for_yes_and_no():
    assert [parse_yes_no(text) for text in ("Active", " 1 ", "TRUE", "no", "0.0", "maybe")] == [1, 1, 1, 0, 0, None]
    assert [is_missing(text) for text in ("", " NA ", "?", "0", "no")] == [True, True, True, False, False]
