"""What docs/ours.md says of published datasets in words is so."""

import statistics

import pytest

from outland.studies.comparisons import Comparison
from tests.report.committed_results import committed_results, first_ten


def scores(row: str, column: str) -> list[float]:
    """Test scores of ten runs of a row of the study `ours`, in per cent."""
    return [100 * record.test_score for record in first_ten("ours", f"{row}/{column}")]


def mean(row: str, column: str) -> float:
    return statistics.mean(scores(row, column))


def test_two_seeds_of_motif_size_are_weak_and_validation_does_not_see_it():
    test = sorted(scores("Evidence", "motif-size"))
    assert test[1] < statistics.median(test) - 10 < test[2]
    selected = [record.selection[record.selected] for record in first_ten("ours", "Evidence/motif-size")]
    validation = [row["val"] for row in selected]
    assert max(validation) - min(validation) < 0.002


def against_evidence(column: str) -> dict[str, Comparison]:
    """Every row of the study `ours` compared with Evidence."""
    results = committed_results("ours")
    (compared,) = (other for other in results.columns if other.label == column)
    return results.comparisons(compared, results.study.quantities[0])


@pytest.mark.parametrize(
    ("row", "difference", "p", "effect"),
    [
        ("ERM + walks", -17.9, 0.002, "worse"),
        ("ERM + walks + maximum", -11.8, 0.004, "worse"),
        ("w/o gate", -7.1, 0.03, "not shown"),
        ("w/o walks", -2.6, 0.15, "not shown"),
        ("w/o layer", 2.7, 0.15, "not shown"),
        ("w/o thinning", 2.8, 0.02, "not shown"),
        ("w/o mixing", 2.7, 0.09, "not shown"),
    ],
)
def test_what_is_shown_of_parts_on_motif_size(row, difference, p, effect):
    comparison = against_evidence("motif-size")[row]
    assert (comparison.effect, comparison.pairs) == (effect, 10)
    assert comparison.difference == pytest.approx(difference, abs=0.05)
    assert comparison.p == pytest.approx(p, abs=0.005)


@pytest.mark.parametrize(
    ("row", "difference"), [("w/o thinning", -1), ("mean", -0.3), ("w/o layer", -0.1), ("w/o walks", -4)]
)
def test_what_is_shown_of_parts_on_motif_base(row, difference):
    comparison = against_evidence("motif-base")[row]
    assert comparison.effect == "worse"
    assert comparison.difference == pytest.approx(difference, abs=0.2 if row == "w/o walks" else 0.05)


def test_the_mean_does_as_well_as_the_maximum_on_motif_size():
    by_mean, ours = scores("mean", "motif-size"), scores("Evidence", "motif-size")
    assert statistics.mean(by_mean) > statistics.mean(ours)
    assert min(by_mean) > min(ours)
    assert max(by_mean) < max(ours)


@pytest.mark.parametrize("row", ["w/o layer", "w/o thinning", "w/o mixing"])
def test_no_run_without_one_of_three_parts_is_weak_on_motif_size(row):
    assert min(scores(row, "motif-size")) > 92


def test_walks_are_enough_on_motif_base():
    ceiling = mean("Evidence", "motif-base")
    assert mean("ERM + walks", "motif-base") == pytest.approx(ceiling, abs=0.1)
    rows = ("ERM + walks + maximum", "w/o gate", "w/o layer", "w/o thinning", "w/o mixing", "mean")
    assert min(mean(row, "motif-base") for row in rows) == pytest.approx(ceiling - 1, abs=0.1)


def test_what_is_left_on_motif_base_without_walks():
    walkless, erm = mean("w/o walks", "motif-base"), mean("ERM", "motif-base")
    assert mean("Evidence", "motif-base") - walkless == pytest.approx(4, abs=0.5)
    assert walkless - erm == pytest.approx(19, abs=0.5)
    assert erm - mean("ERM + maximum", "motif-base") == pytest.approx(5, abs=0.5)


def test_no_part_is_shown_to_be_worth_anything_on_molbbbp_scaffold():
    column = "molbbbp-scaffold"
    ours, again = mean("Evidence", column), mean("w/o mixing", column)  # there is nothing to mix: the same, run again
    assert again - ours == pytest.approx(0.5, abs=0.05)
    devices = [record.platform["device"] for record in first_ten("ours", f"Evidence/{column}")]
    assert devices.count("cpu") == 4
    assert mean("w/o gate", column) > again + 0.7
    assert mean("w/o thinning", column) > again + 0.2
    assert again - 0.6 < mean("w/o layer", column) < ours
    assert (
        max(mean(row, column) for row in ("ERM + walks", "ERM + maximum", "with walks", "maximum"))
        < mean("ERM", column) - 1
    )


def test_nothing_is_shown_on_molhiv_by_scaffold():
    results = committed_results("covariate")
    (column,) = (column for column in results.columns if column.label == "molhiv-scaffold")
    ours = results.comparisons(column, results.study.quantities[0])["ours Evidence"]
    assert (ours.pairs, ours.effect) == (10, "not shown")
    assert ours.difference == pytest.approx(0.4, abs=0.05)


def test_nothing_is_shown_of_parts_on_molbbbp_scaffold():
    compared = against_evidence("molbbbp-scaffold")
    assert {row for row, comparison in compared.items() if comparison.effect != "not shown"} == set()
