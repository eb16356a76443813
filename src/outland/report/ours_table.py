"""The table of docs/ours.md: where our own method stands, from the records of runs."""

from outland.report.markdown import pipe_table, unbroken
from outland.report.score_tables import cell_scores
from outland.studies import Column, Row
from outland.studies.quantities import MASK_ROCAUC, TEST
from outland.studies.results import Results

BEGIN, END = "<!-- published -->\n", "\n<!-- /published -->"


def with_table(page: str, results: Results, masks: Results, label: str = "Evidence") -> str:
    """The page with the table in place of what stands between the marks; unchanged where there are no such marks."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}{ours_table(results, masks, label)}{END}{after}" if mark and end else page


def ours_table(results: Results, masks: Results, label: str) -> str:
    """A line for each column: ERM, the best complete other row, ours, and how well our masks find the truth."""
    ours = next(row for row in results.study.rows if row.label == label)
    reference = results.reference(ours)
    assert reference is not None

    def line(column: Column) -> list[str]:
        best = _best_other(results, column, {ours.name, reference.name})
        other = "–" if best is None else f"{cell_scores(results, best, column, TEST)} ({best.label})"
        found = [row for row in masks.study.rows if row.label == label and column in masks.study.columns]
        mask = cell_scores(masks, found[0], column, MASK_ROCAUC) if found else "–"
        entries = [cell_scores(results, row, column, TEST) for row in (reference, ours)]
        return [column.label, *(unbroken(text) for text in (entries[0], other, entries[1], mask))]

    head = ["", reference.label, "best other row", label, "ROC-AUC of its mask"]
    return pipe_table(head, [line(column) for column in results.study.columns])


def _best_other(results: Results, column: Column, left_out: set[str]) -> Row | None:
    """The row with the best mean test score of those with all seeds; None while one that is not newer lacks some."""
    means = {}
    for row in results.study.rows:
        summary = results.whole_summary(row, column, TEST)
        if summary is None and row not in results.study.newer:
            return None
        if summary is not None and row.name not in left_out:
            means[row.name] = (summary.mean, row)
    return max(means.values(), key=lambda pair: pair[0])[1] if means else None
