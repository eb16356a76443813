"""Tables of a study for pages in Markdown: a line for each row, ours and below it the paper's."""

from outland.report.markdown import pipe_table, unbroken
from outland.report.published import Published, paper_value
from outland.report.study_text import ARROWS, format_value, our_value
from outland.studies import Column, Row
from outland.studies.quantities import Quantity
from outland.studies.results import Results

_DIGITS = 1  # of scores in %: standard errors are larger than a second one


def shown_digits(quantity: Quantity) -> int:
    """Digits after the decimal point on a page."""
    return _DIGITS if quantity.scale == 100 or quantity.relative else quantity.digits


def score_table(results: Results, quantity: Quantity) -> str:
    """A line for each row, ours and below it the paper's; a dash where there is no run.

    The best is bold, an arrow says where a difference from the reference is shown. Rows of a group stand below
    its name.
    """
    marks = {column.label: results.marks(column, quantity) for column in results.columns}
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}

    def entry(row: Row, column: Column) -> str:
        text = cell_scores(results, row, column, quantity)
        if marks[column.label].get(row.name) == "best":
            text = f"**{text}**"
        comparison = compared[column.label].get(row.name)
        text = unbroken(f"{text} {'' if comparison is None else ARROWS[comparison.effect]}".strip())
        return text + _published(results, row, column, quantity)

    lines, group = list[list[str]](), ""
    for row in results.rows:
        if row.group != group:
            group = row.group
            lines.append([f"*{group}*", *("" for _ in results.columns)])
        lines.append([row.label, *(entry(row, column) for column in results.columns)])
    return pipe_table(["", *(column.label for column in results.columns)], lines)


def _published(results: Results, row: Row, column: Column, quantity: Quantity) -> str:
    """The paper's value on a line of its own; an empty string where it has none."""
    paper = paper_value(results.study, row, column, quantity)
    return "" if paper is None else f"<br>*{unbroken(format_value(paper, shown_digits(quantity)))}*"


def cell_scores(results: Results, row: Row, column: Column, quantity: Quantity) -> str:
    """Mean ± standard deviation; a dash for none. Where seeds are missing, it says of how many they are."""
    summary, planned = results.summary(row, column, quantity), results.study.default_count(row, column)
    if summary is None:
        return "–"
    value: Published | None = our_value(results, row, column, quantity)
    number = f" ({summary.count} of {planned})" if summary.count < planned else ""
    return format_value(value, shown_digits(quantity)) + number
