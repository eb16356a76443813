"""The numbers behind the findings of a study, in small tables."""

import math
from collections.abc import Mapping

from outland.report.findings import column_comparisons, planned_columns, with_effect
from outland.report.markdown import pipe_table
from outland.studies.comparisons import PlannedTest
from outland.studies.results import Results
from outland.studies.statistics import holm


def difference_table(results: Results) -> str:
    """A line for each column: which rows are better and which are worse than the reference, and by how much."""
    lines = []
    for label, tests in column_comparisons(results).items():
        better, worse = (", ".join(with_effect(results, tests, effect)) or "–" for effect in ("better", "worse"))
        lines.append([label, better, worse, f"{sum(test.effect == 'not shown' for test in tests.values())}"])
    reference = results.study.reference
    head = ["", f"better than {reference}", f"worse than {reference}", "not shown to differ"]
    return pipe_table(head, lines, left=(0, 1, 2)) if lines else ""


def planned_table(results: Results) -> str:
    """A line for each column: the planned test against the reference, and that against the best rival."""
    against, rivals = planned_columns(results)
    against_corrected, rivals_corrected = _corrected(against), _corrected(rivals)
    lines = []
    for label, test in against.items():
        rival = rivals.get(label)
        rest = ["–"] * 5
        if rival is not None:
            rest = [rival.rival, *_numbers(rival, rivals_corrected.get(label))]
        lines.append([label, *_numbers(test, against_corrected.get(label)), *rest])
    head = ["", f"to {results.study.reference}", results.study.repeats, "p", "corrected"]
    head += ["best rival", "to it", results.study.repeats, "p", "corrected"]
    return pipe_table(head, lines, left=(0, 5)) if lines else ""


def _corrected(tests: Mapping[str, PlannedTest]) -> dict[str, float]:
    """P-values of planned tests by column, corrected over the columns."""
    tested = {label: test.p for label, test in tests.items() if not math.isnan(test.p)}
    return dict(zip(tested, holm(list(tested.values())), strict=True))


def _numbers(test: PlannedTest, corrected: float | None) -> list[str]:
    p = ["–", "–"] if corrected is None else [f"{test.p:.2g}", f"{corrected:.2g}"]
    return [f"{test.difference:+.2f}", str(test.pairs), *p]


def few_graphs_table(results: Results) -> str:
    """A line for each column with a ROC-AUC: how many graphs it rests on, and how far that lets it be off."""
    lines, row = [], results.rows[0]
    for column in results.columns:
        interval = results.auc_interval(row, column)
        summary = results.summary(row, column, results.study.quantities[0])
        if interval is not None and summary is not None:
            low, high, positives, negatives = interval
            counts = [f"{positives:,}", f"{negatives:,}"]
            lines.append([column.label, *counts, f"{summary.mean:.1f}", f"{low:.1f} to {high:.1f}"])
    return pipe_table(["", "positives", "negatives", row.label, "95% interval"], lines) if lines else ""
