from outland.report.findings import describe_progress, findings
from tests.report.cases import scores
from tests.studies.cases import made


def test_a_whole_table_says_so_and_ranks_it():
    results = made("covariate", scores, seeds=None)
    text = " ".join([describe_progress(results), *findings(results)])
    assert "126 of 126 cells are there so far, 1,254 of 1,254 runs: all rows of motif-base, motif-size," in text
    assert "better on motif-base (+5.00, 20 seeds, p = 1e-05, 7e-05 corrected over the columns)" in text
    assert "not shown to differ on cmnist-color (+5.00, 3 seeds, p = 0.25, 0.25 corrected over the columns)" in text
    assert "of 119 comparisons, corrected by Holm's method within each column, 6 are better, AIA (released) on" in text
    assert "none is worse" in text
    assert "5% at most, in any of the 7 at most 35%" in text
    assert "over the 7 complete columns go from 1.00 (AIA (released))" in text


def test_cells_that_have_only_begun_are_not_there():
    results = made("covariate", scores, seeds=None)
    results.records = {name: runs for name, runs in results.records.items() if "motif-" in name or "ERM/" in name}
    del results.records["IRM/motif-size"][9]
    assert describe_progress(results) == (
        "40 of 126 cells are there so far, 482 of 1,254 runs: all rows of motif-base, 17 of 18 rows of motif-size, 1 "
        "of 18 rows of cmnist-color, 1 of 18 rows of molbbbp-scaffold, 1 of 18 rows of molbbbp-size, 1 of 18 rows of "
        "molhiv-scaffold, 1 of 18 rows of molhiv-size and part of the seeds of 1 other cell."
    )


def test_ten_seeds_cannot_pass_a_correction_over_all_columns():
    lines = findings(made("covariate", scores, seeds=10))
    (sure,) = (line for line in lines if line.startswith("**How sure"))
    assert sure.endswith(
        "Of all 119 corrected at once, none would pass (with 10 seeds or fewer none can: p is 0.23 or more)."
    )


def test_a_worse_row_is_called_so():
    lines = findings(
        made("covariate", lambda row, column, seed: scores(row, column, seed) - 0.1 * (row.label == "DIR"))
    )
    (compared,) = (line for line in lines if line.startswith("**Every row"))
    assert "7 are worse, DIR on motif-base (-10.00)," in compared
