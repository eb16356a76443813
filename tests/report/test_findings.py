from outland.report.findings import describe_progress, findings
from outland.report.findings_tables import difference_table, few_graphs_table, planned_table
from tests.report.cases import scores
from tests.studies.cases import made


def test_a_whole_table_says_so_and_what_it_shows():
    results = made("covariate", scores, seeds=None)
    assert describe_progress(results) == "All 126 cells are there, 1,254 runs."
    better, worse, planned, rivals, sure = findings(results)
    assert better == (
        "**Better than ERM** in 6 of 119 comparisons (differences in points, over the seeds that both have) are AIA "
        "(released) (+5.0) on motif-base; AIA (released) (+5.0) on motif-size; AIA (released) (+5.0) on "
        "molbbbp-scaffold; AIA (released) (+5.0) on molbbbp-size; AIA (released) (+5.0) on molhiv-scaffold; AIA "
        "(released) (+5.0) on molhiv-size."
    )
    assert worse == "**Worse than ERM** in none of them; in the other 113 no difference is shown."
    assert "is ahead of it on motif-base (+5.0, p = 1e-05), motif-size (+5.0, p = 1e-05)," in planned
    assert planned.endswith("is not shown to differ on cmnist-color (+5.0, p = 0.25).")
    assert rivals.startswith(
        "**Against the best other method of the paper**, column by column, it is ahead on motif-base (+5.0, p = 1e-05),"
    )
    assert "at most 5% in a column and 35% in any of the 7" in sure
    assert "By average rank no two methods are farther apart than the critical difference of 10.0" in sure


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
    *_, sure = findings(made("covariate", scores, seeds=10))
    assert "Of the 119 comparisons corrected all at once, none would pass (with 10 seeds or fewer none can)" in sure


def test_a_worse_row_is_called_so_and_has_its_number_in_the_table():
    results = made("covariate", lambda row, column, seed: scores(row, column, seed) - 0.1 * (row.label == "DIR"))
    _, worse, *_ = findings(results)
    assert worse == (
        "**Worse than ERM** in 7 of them: 1 on motif-base, 1 on motif-size, 1 on cmnist-color, 1 on molbbbp-scaffold, "
        "1 on molbbbp-size, 1 on molhiv-scaffold and 1 on molhiv-size, as the first table below has them; in the other "
        "105 no difference is shown."
    )
    assert "| motif-base | AIA (released) (+5.0) | DIR (-10.0) | 15 |" in difference_table(results)


def test_nothing_better_is_said_as_it_is():
    better, *_ = findings(made("covariate", lambda row, column, seed: 0.5))
    assert better == "**No method is shown to be better than ERM** in any of 119 comparisons."
    assert findings(made("masks", scores)) == []


def test_planned_tests_have_both_p():
    lines = planned_table(made("covariate", scores, seeds=None)).splitlines()
    assert lines[2] == "| motif-base | +5.00 | 20 | 1e-05 | 7e-05 | ERM | +5.00 | 20 | 1e-05 | 7e-05 |"
    assert lines[4] == "| cmnist-color | +5.00 | 3 | 0.25 | 0.25 | ERM | +5.00 | 3 | 0.25 | 0.25 |"
    assert planned_table(made("ablation", scores)) == ""


def test_the_interval_of_few_graphs_is_that_of_hanley_and_mcneil():
    counts = {"class_counts": {"test": [96, 108]}}
    results = made("covariate", lambda row, column, seed: 0.687, metric="rocauc", data=counts)
    (_, _, first, *rest) = few_graphs_table(results).splitlines()
    low, high, positives, negatives = results.auc_interval(results.rows[0], results.columns[0])
    assert (positives, negatives, len(rest)) == (108, 96, 6)
    assert first == f"| motif-base | 108 | 96 | 68.7 | {low:.1f} to {high:.1f} |"
    assert few_graphs_table(made("covariate", scores)) == ""


def since(row, column, seed):
    """Scores of the paper's rows everywhere; of Evidence on two columns, and of PrunE, part of its seeds, on one."""
    if row.label == "Evidence":
        return 0.8 + 0.001 * seed if column.label.startswith("motif") else None
    if row.label == "PrunE":
        return 0.5 if column.label == "motif-base" and seed < 3 else None
    return None if row.group else scores(row, column, seed)


def test_rows_since_the_paper_are_compared_and_counted_by_themselves():
    results = made("covariate", since, seeds=None, newer=True)
    assert describe_progress(results) == (
        "All 126 cells are there, 1,254 runs. Of methods since the paper there are PrunE (3 runs) and Evidence "
        "(20 runs)."
    )
    better, _, planned, rivals, _ = findings(results)
    assert better.startswith(
        "**Better than ERM** in 8 of 122 comparisons (differences in points, over the seeds that both have) are "
        "Evidence (+20.0) and AIA (released) (+5.0) on motif-base;"
    )
    assert "Evidence" not in planned + rivals
    assert "| motif-base | Evidence (+20.0), AIA (released) (+5.0) | – | 17 |" in difference_table(results)
