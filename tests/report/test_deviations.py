import statistics

import pytest

from outland.errors import OutlandError
from outland.report.deviations import deviations, read_remarks
from tests.report.cases import scores
from tests.studies.cases import made


def test_an_error_of_the_difference_has_both_sides():
    results = made("covariate", scores, seeds=10)
    deviation = next(one for one in deviations(results) if one.cell == "ERM/motif-base")
    ours = [60 + 0.1 * seed for seed in range(10)]
    expected = (statistics.variance(ours) / 10 + 4.25**2 / 9) ** 0.5
    assert deviation.error == pytest.approx(expected)
    assert deviation.difference == pytest.approx(statistics.mean(ours) - 68.66)
    assert deviation.is_large


def test_a_cell_that_runs_are_missing_of_is_not_compared_with_the_paper():
    results = made("covariate", scores, seeds=None)
    assert "CAL/motif-base" in {deviation.cell for deviation in deviations(results)}
    del results.records["CAL/motif-base"][3]
    assert "CAL/motif-base" not in {deviation.cell for deviation in deviations(results)}


def test_a_remark_has_the_numbers_that_were_measured(tmp_path):
    (tmp_path / "m.json").write_text('{"aia:released": {"one cut": 84.456}}')
    remark = (
        '[[remarks]]\ncells = ["ERM/*"]\nmeasured = "m.json"\ntext = "It is {measured[aia:released][one cut]:.1f}."\n'
    )
    (tmp_path / "remarks.toml").write_text(remark + '[[remarks]]\ncells = ["*/motif-*"]\ntext = "{so}"\n')
    found = read_remarks(tmp_path / "remarks.toml", made("covariate", scores, seeds=1))
    assert [one.text for one in found] == ["It is 84.5.", "{so}"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[remarks]]\ncells = ["ERM/motif"]\ntext = "x"', "'ERM/motif' names no cell of the study covariate"),
        ("[[remarks]]\ncells = []", "is not a file of remarks"),
        ("remarks", "is not a file of remarks"),
        ('[[remarks]]\ncells = ["ERM/*"]\nmeasured = "m.json"\ntext = "{a}"', "is not a file of remarks"),
    ],
)
def test_a_wrong_remark_gets_a_sentence(tmp_path, text, sentence):
    (tmp_path / "remarks.toml").write_text(text)
    with pytest.raises(OutlandError, match=sentence):
        read_remarks(tmp_path / "remarks.toml", made("covariate", scores, seeds=1))
