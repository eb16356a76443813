import math

import pytest

from outland.report.study_notes import power_note
from outland.studies import find_study
from tests.studies.cases import made


def test_better_is_said_only_where_it_is_shown():
    gains = {"AIA": 0.05, "RDIA": -0.05, "w/o Adv": 0.002}

    def scores(row, column, place):
        wobble = 0.01 * math.sin(7 * place + len(row.name))
        return 0.6 + gains.get(row.label, 0.0) + wobble

    results = made("ablation", scores)
    (quantity,) = results.study.quantities
    found = results.comparisons(results.columns[0], quantity)
    assert {name: one.effect for name, one in found.items()} == {
        "w/o Adv": "not shown",
        "w/o Sta": "not shown",
        "RDIA": "worse",
        "AIA": "better",
    }
    assert found["AIA"].p == 2 / 1024
    assert found["AIA"].adjusted == pytest.approx(4 * 2 / 1024)
    assert found["RDIA"].adjusted == pytest.approx(4 * 2 / 1024)  # equal p, and Holm never falls
    assert found["AIA"].difference == pytest.approx(5.0, abs=1.0)
    assert found["AIA"].pairs == 10
    marks = results.marks(results.columns[0], quantity)
    assert (marks["AIA"], len(marks)) == ("best", 2)


def test_a_verdict_rests_on_the_corrected_p():
    gains = [0.01] * 8 + [-0.009, -0.009]  # 24 of 1,024 sign flips give as much: p = 0.023, by Holm 0.094

    results = made("ablation", lambda row, column, place: 0.6 + (gains[place] if row.label == "AIA" else 0.0))
    (quantity,) = results.study.quantities
    found = results.comparisons(results.columns[0], quantity)["AIA"]
    assert found.p < 0.05 <= found.adjusted
    assert found.effect == "not shown"


def test_with_few_seeds_nothing_can_be_shown_and_it_is_said():
    results = made("ablation", lambda row, column, place: 0.9 if row.label == "AIA" else 0.1, seeds=5)
    (quantity,) = results.study.quantities
    assert results.comparisons(results.columns[0], quantity)["AIA"].effect == "not shown"
    assert "With 5 seeds and 4 comparisons a column, no difference can pass" in power_note(results, quantity)
    assert power_note(made("ablation", lambda *rest: 0.5), quantity) == ""
    single = made("ablation", lambda *rest: 0.5, seeds=1)
    assert math.isnan(single.comparisons(single.columns[0], quantity)["AIA"].p)
    assert power_note(single, quantity) == "With one run a cell no difference can be tested."


def test_rows_of_the_same_runs_are_one_comparison():
    same = ("λ_s 0.5", "γ 0.2")  # on Motif-base

    def score(row, column, seed):
        if row.name in (*same, "ERM"):
            return (0.5 if row.name == "ERM" else 0.6) + 0.01 * seed
        return 0.5 + 0.01 * (seed % 3) if row.name == "γ 1" else None

    results = made("sensitivity", score, seeds=5)
    column, quantity = results.columns[0], results.study.quantities[0]
    compared = results.comparisons(column, quantity)
    assert set(compared) == {*same, "γ 1"}
    assert {test.comparisons for test in compared.values()} == {2}
    assert {compared[name].p for name in same} == {0.0625}
    assert {compared[name].adjusted for name in same} == {0.125}
    assert "With 5 seeds and 2 comparisons a column, no difference" in power_note(results, quantity)


def test_rows_of_the_references_runs_are_not_compared_with_it():
    results = made("ours", lambda row, column, seed: 0.5 + 0.01 * seed + 0.1 * (row.label == "ERM"))
    motif, *_, molecules = (set(results.comparisons(column, results.study.quantities[0])) for column in results.columns)
    assert motif.symmetric_difference(molecules) == {"w/o walks", "mean", "with walks", "maximum"}
    assert {"w/o walks", "mean", "ERM"} <= motif
    assert "Evidence" not in motif | molecules


def test_only_seeds_that_both_have_are_paired():
    def scores(row, column, place):
        if row.label == "ERM" and place < 3:
            return None
        return 0.5 + 0.01 * place + (0.1 if row.label == "AIA" else 0.0)

    results = made("ablation", scores)
    (quantity,) = results.study.quantities
    one = results.comparisons(results.columns[0], quantity)["AIA"]
    assert (one.pairs, one.difference) == (7, pytest.approx(10.0))
    assert results.summary(results.rows[0], results.columns[0], quantity).count == 7


def test_rows_of_a_group_are_compared_and_marked_within_it():
    level = {"GCN": 0.5, "GCNII": 0.7, "GAT": 0.6}
    results = made("backbones", lambda row, column, place: level[row.group] + (0.1 if row.label == "AIA" else 0.0))
    (quantity,) = results.study.quantities
    found = results.comparisons(results.columns[0], quantity)
    assert len(found) == 9
    assert all(found[f"{group} AIA"].difference == pytest.approx(10.0) for group in level)
    marks = results.marks(results.columns[0], quantity)
    assert [name for name, mark in marks.items() if mark == "best"] == ["GCN AIA", "GCNII AIA", "GAT AIA"]


def test_the_study_without_a_shift_has_the_last_epoch_beside_the_selected_one():
    selection = {"ood_val": {"epoch": 3, "test": 0.7}, "last_epoch": {"epoch": 99, "test": 0.6}}
    results = made("tu", lambda *rest: 0.7, selection=selection)
    assert [results.summary(results.rows[0], results.columns[0], one).mean for one in results.study.quantities] == [
        pytest.approx(70.0),
        pytest.approx(60.0),
    ]


def planned_scores(row, column, place):
    """AIA is two points above ERM, and one below its best rival, VREx; noise is the same for all."""
    return 0.6 + {"AIA (released)": 0.02, "AIA (paper)": 0.05, "VREx": 0.03}.get(row.label, 0.0) + 0.001 * (place % 7)


def test_planned_tests_are_of_aia_against_erm_and_against_its_best_rival():
    results = made("covariate", planned_scores, seeds=None)
    (quantity,) = results.study.quantities
    erm, best = results.planned_tests(results.columns[0], quantity)
    assert (erm.rival, erm.pairs, best.rival, best.pairs) == ("ERM", 20, "VREx", 10)
    assert (erm.difference, best.difference) == (pytest.approx(2.0), pytest.approx(-1.0))
    assert (erm.p, best.p) == (1e-5, 2 / 1024)  # of twenty pairs flips are sampled
    assert [test.pairs for test in results.planned_tests(results.columns[2], quantity)] == [3, 3]  # CMNIST
    assert made("ablation", planned_scores).planned_tests(results.columns[0], quantity) == []


@pytest.mark.parametrize(("row", "rivals"), [("CAL", ["ERM"]), ("ERM", []), ("AIA (released)", [])])
def test_planned_tests_wait_for_all_runs_of_what_they_compare(row, rivals):
    results = made("covariate", planned_scores, seeds=None)
    (quantity,) = results.study.quantities
    del results.records[f"{row}/motif-base"][9]
    assert [test.rival for test in results.planned_tests(results.columns[0], quantity)] == rivals
    assert [test.rival for test in results.planned_tests(results.columns[1], quantity)] == ["ERM", "VREx"]


def test_a_cell_that_runs_are_missing_of_has_no_mark():
    def some(row, column, place):
        return (
            0.99
            if row.label == "CAL" and place < 2
            else None
            if row.label == "CAL"
            else planned_scores(row, column, place)
        )

    results = made("covariate", some, seeds=None)
    (quantity,) = results.study.quantities
    column = results.columns[0]
    marks = results.marks(column, quantity)
    assert (marks["AIA (paper)"], marks["VREx"], "CAL" in marks) == ("best", "second", False)
    assert results.ranks(quantity) is None  # no column is complete
    assert made("covariate", planned_scores, seeds=None).ranks(quantity).rows[0] == "AIA (paper)"


def test_a_row_is_named_with_its_group_only_where_another_has_its_label():
    covariate, backbones = find_study("covariate").with_newer(), find_study("backbones")
    assert {covariate.display_name(row) for row in covariate.rows if row.group == "ours"} == {"Evidence"}
    assert [backbones.display_name(row) for row in backbones.rows[:2]] == [row.name for row in backbones.rows[:2]]
    assert backbones.display_name(backbones.rows[0]) != backbones.rows[0].label


def test_rows_since_the_paper_take_no_column_from_the_ranks():
    def scores(row, column, place):
        if row.label == "LECI" and column.label != "motif-base":
            return None
        return 0.5 + 0.01 * len(row.label)

    results = made("covariate", scores, seeds=2, newer=True)
    found = results.ranks(results.study.quantities[0])
    assert found.columns == 7
    assert "since the paper PrunE" in found.rows
    assert "since the paper LECI" not in found.rows
    assert len(found.rows) == 24
    marks = results.marks(results.columns[0], results.study.quantities[0])
    assert [name for name, mark in marks.items() if mark == "best"] == ["since the paper LECI + virtual node"]


def test_rows_since_the_paper_are_compared_and_are_no_rivals_of_planned_tests():
    def scores(row, column, seed):
        if row.label == "Evidence":
            return 0.9 + 0.001 * seed if column.label == "motif-base" else None
        return None if row.group else planned_scores(row, column, seed)

    results, paper = made("covariate", scores, seeds=None, newer=True), made("covariate", planned_scores, seeds=None)
    quantity, column = results.study.quantities[0], results.columns[0]
    compared, before = results.comparisons(column, quantity), paper.comparisons(column, quantity)
    evidence = compared["ours Evidence"]
    assert (evidence.pairs, evidence.effect) == (10, "better")
    assert evidence.p == pytest.approx(2 / 1024)
    assert (len(compared), len(before)) == (18, 17)  # Holm's correction is over one more
    assert "ours Evidence" not in results.comparisons(results.columns[1], quantity)
    assert results.planned_tests(column, quantity) == paper.planned_tests(column, quantity)


def test_ranks_over_complete_columns():
    order = {row.name: place for place, row in enumerate(find_study("covariate").rows)}

    def scores(row, column, place):
        if column.label == "molhiv-size" and row.label == "AIA (paper)":
            return None
        return 0.5 + 0.01 * order[row.name]

    results = made("covariate", scores, seeds=2)
    found = results.ranks(results.study.quantities[0])
    assert found.columns == 6
    assert found.rows[0] == "AIA (paper)"
    assert found.ranks == tuple(float(rank) for rank in range(1, 19))
    assert found.p < 1e-6
    assert found.critical == pytest.approx(3.5084 * math.sqrt(18 * 19 / 36), rel=0.01)
    assert all(found.ranks[last] - found.ranks[first] <= found.critical for first, last in found.groups)


def test_intervals_come_from_the_positives_of_the_test_part():
    data = {"class_counts": {"test": [3898, 63]}}
    results = made("covariate", lambda *rest: 0.6, seeds=3, metric="rocauc", data=data)
    low, high, *classes = results.auc_interval(results.rows[0], results.columns[-1])
    assert classes == [63, 3898]
    assert (low, high) == (pytest.approx(52.4, abs=0.3), pytest.approx(67.2, abs=0.3))
    plain = made("covariate", lambda *rest: 0.6, seeds=3)
    assert plain.auc_interval(plain.rows[0], plain.columns[0]) is None


def test_cost_reads_time_size_and_improvement():
    results = made("cost", lambda row, column, place: 0.66 if row.published == "AIA" else 0.6, seeds=3)
    improvement, seconds, parameters = results.study.quantities
    aia, column = results.rows[-1], results.columns[0]
    assert results.summary(aia, column, improvement).mean == pytest.approx(10.0)
    assert results.summary(results.rows[0], column, improvement).mean == 0.0
    assert results.summary(aia, column, seconds).mean == 60.0
    assert results.summary(aia, column, parameters).mean == 1.5


def test_a_score_that_could_not_be_taken_does_not_count():
    results = made("ablation", lambda row, column, place: 0.5)
    cell = results.cells[0].name
    changes = {"selection": {"ood_val": {"epoch": 3, "test": None}}}
    results.records[cell][0] = results.records[cell][0].model_copy(update=changes)
    assert results.summary(results.rows[0], results.columns[0], results.study.quantities[0]).count == 9
