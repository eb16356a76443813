"""The page of what methods cost, docs/cost.md: seconds and size of every run that the table of results has."""

from outland.report.findings import describe_progress, devices_phrase, enumerated
from outland.report.markdown import filled, pipe_table
from outland.report.published import Published, paper_value
from outland.report.study_text import format_value
from outland.studies import Column, Row
from outland.studies.quantities import PARAMETERS, SECONDS, Quantity
from outland.studies.results import Results


def cost_page(results: Results) -> str:
    """The page as Markdown, made from the results of the study of cost."""
    there = [cell for cell in results.cells if results.summary(cell.row, cell.column, SECONDS) is not None]
    columns = [column for column in results.columns if any(cell.column == column for cell in there)]
    rows = [row for row in results.rows if any(cell.row == row for cell in there)]
    parts = ["# Cost", filled(_introduction(results)), filled(describe_progress(results))]
    if there:
        others = sorted(device for device, _ in results.device_counts[1:])
        left_out = f" Runs on {enumerated(others)} are left out." if others else ""
        parts += ["## Seconds a run", filled(_SECONDS + left_out), _table(results, rows, columns, SECONDS)]
        parts += ["## Parameters", filled(_PARAMETERS), _table(results, rows, columns, PARAMETERS)]
    return "\n\n".join(parts) + "\n"


_SECONDS = (
    "Means over the runs of a cell, all epochs with their evaluation; in brackets, times ERM's. Below, *the paper's*, "
    "on an RTX 3090; its seconds may count ten runs. Ours are of the device: those by the clock, divided among the "
    "runs that shared it at the time, with kernels that were compiled on the way. Later runs had more beside them, "
    "with which a step takes less ([Speed](speed.md)): on molhiv-scaffold ERM, IRM, VREx, GSAT and AIA (paper) are "
    "earlier ones, so that the others look cheaper beside ERM than they are. The earlier records had seconds by the "
    "clock, which were divided afterwards, by the times at which runs ended; those of molhiv-size (but Evidence's) are "
    "divided by the estimated cost of a step of each run, the others equally. A run of few seconds is mostly its start "
    "and the compilation that falls to it: those of Molbbbp compare least."
)
_PARAMETERS = "Millions of parameters that are trained, in brackets times ERM's, and below *the paper's*."


def _introduction(results: Results) -> str:
    return (
        f"{results.study.question} The runs are those of the table of [results](results.md), "
        f"which also says what methods bring, on {devices_phrase(results)}; `make results` writes this page from their "
        "records. `outland study cost --report` has improvement, time and size side by side."
    )


def _table(results: Results, rows: list[Row], columns: list[Column], quantity: Quantity) -> str:
    """A line for each row: the mean and how many times ERM's it is; below it the paper's."""

    def ours(row: Row, column: Column) -> float | None:
        summary = results.summary(row, column, quantity)
        return None if summary is None else summary.mean

    def papers(row: Row, column: Column) -> float | None:
        published = paper_value(results.study, row, column, quantity)
        return None if published is None else published.mean

    def entry(row: Row, column: Column) -> str:
        reference = results.reference(row) or row
        first = _times(ours(row, column), ours(reference, column), quantity.digits)
        second = _times(papers(row, column), papers(reference, column), quantity.digits)
        return (first or "–") + (f"<br>*{second}*" if second else "")

    lines = [[row.label, *(entry(row, column) for column in columns)] for row in rows]
    return pipe_table(["", *(column.label for column in columns)], lines)


def _times(value: float | None, reference: float | None, digits: int) -> str:
    """A number, and in brackets how many times the reference's it is."""
    if value is None:
        return ""
    return format_value(Published(value), digits) + (f" ({value / reference:.1f}×)" if reference else "")
