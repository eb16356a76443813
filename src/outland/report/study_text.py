"""A study's tables as Markdown, LaTeX and CSV: ours, the paper's and the leaderboard's numbers."""

import csv
import io
import math
from dataclasses import dataclass
from typing import Any

from outland.errors import counted
from outland.report.markdown import piped
from outland.report.published import Published, leaderboard_value, paper_value
from outland.report.study_notes import missing_note, notices, power_note, sampling_notes, stand_in_note
from outland.studies import Cell, Column, Row
from outland.studies.commands import cell_command
from outland.studies.comparisons import Comparison
from outland.studies.quantities import Quantity
from outland.studies.results import Results
from outland.studies.statistics import LEVEL

ARROWS = {"better": "▲", "worse": "▼", "not shown": ""}


def format_value(value: Published | None, digits: int) -> str:
    """Mean ± standard deviation, or a dash; above a hundred there are no digits after the point."""
    if value is None:
        return "–"
    digits = digits if abs(value.mean) <= 100 else 0
    std = "" if value.std is None else f" ± {value.std:.{digits}f}"
    return f"{value.mean:.{digits}f}{std}"


def our_value(results: Results, row: Row, column: Column, quantity: Quantity) -> Published | None:
    """Our value of a cell; a single run has no standard deviation, nor has what is the same for all seeds."""
    summary = results.summary(row, column, quantity)
    if summary is None:
        return None
    return Published(summary.mean, summary.std if summary.count > 1 and not quantity.exact else None)


@dataclass(frozen=True)
class TableLine:
    """A line of a table, with a number for each column."""

    row: Row
    method: str  # its name, in its first line
    source: str  # `ours`, `paper` or `GOOD`
    texts: list[str]
    marks: list[str]  # `best`, `second` or nothing


def table_lines(results: Results, quantity: Quantity) -> list[TableLine]:
    """The lines of a quantity's table: for each row ours, and a published source where it has any number."""
    marks = [results.marks(column, quantity) for column in results.columns]
    comparisons = [results.comparisons(column, quantity) for column in results.columns]
    lines = []
    for row in results.rows:
        texts = []
        for column, compared in zip(results.columns, comparisons, strict=True):
            arrow = ARROWS[compared[row.name].effect] if row.name in compared else ""
            texts.append(f"{format_value(our_value(results, row, column, quantity), quantity.digits)} {arrow}".strip())
        lines.append(TableLine(row, row.name, "ours", texts, [mark.get(row.name, "") for mark in marks]))
        published = {
            "paper": [paper_value(results.study, row, column, quantity) for column in results.columns],
            "GOOD": [leaderboard_value(row, column, quantity) for column in results.columns],
        }
        for source, values in published.items():
            if any(values):
                texts = [format_value(value, quantity.digits) for value in values]
                lines.append(TableLine(row, "", source, texts, [""] * len(texts)))
    return lines


def caption(results: Results, quantity: Quantity, second: str = "underlined") -> str:
    """What the marks of a table mean; `second` is how the second best is marked."""
    clauses = [f"the same for all {results.study.repeats}"]
    if not quantity.exact:
        clauses = [f"mean ± standard deviation over {results.study.repeats}"]
    if quantity.sign:
        clauses.append(f"best bold, second {second}")
    if results.study.reference and quantity.sign and quantity.tested:
        clauses.append(
            f"▲ ▼ better or worse than {results.study.reference}: paired sign-flip test over {results.study.repeats}, "
            f"Holm's correction over the column, p < 0.05, so that a false one is in {_error_rates(results, quantity)}"
        )
    return "; ".join(clauses) + "."


def _error_rates(results: Results, quantity: Quantity) -> str:
    """How often tests at the level find something where there is nothing: in a column, and in any that has tests."""
    number = sum(bool(results.comparisons(column, quantity)) for column in results.columns)
    overall = f", in any of the {number} at most {min(100, round(100 * LEVEL * number))}%" if number > 1 else ""
    return f"a column with a chance of at most {100 * LEVEL:.0f}%{overall}"


def planned_notes(results: Results, quantity: Quantity) -> list[str]:
    """Two sentences on the planned tests of all columns: against the reference, and against the best rival."""
    tests = {column.label: results.planned_tests(column, quantity) for column in results.columns}
    study, notes = results.study, []
    for index, name in enumerate((study.reference, "the best rival")):
        clauses = []
        for label, planned in tests.items():
            for test in planned[index : index + 1]:
                against = f" to {test.rival}" if index else ""
                p = "" if math.isnan(test.p) else f", p = {test.p:.2g}"
                number = counted(test.pairs, study.repeats[:-1])
                clauses.append(f"{label} {test.difference:+.{quantity.digits}f}{against} ({number}{p})")
        if clauses:
            notes.append(f"Planned test of {study.planned} against {name}: {'; '.join(clauses)}.")
    if notes:
        notes.append(
            f"A planned test is one a column and not corrected: p < 0.05 by chance alone in "
            f"{_error_rates(results, quantity)}. "
            "The best rival, a method of the paper, is chosen by its test mean, which favours it: a lead over it is "
            "safely shown, a lag is not."
        )
    return notes


def remarks(results: Results, quantity: Quantity) -> list[str]:
    """Notes on a table: planned tests, graphs that stand in for others, missing runs, too few seeds or positives."""
    notes = [stand_in_note(results), missing_note(results, quantity), power_note(results, quantity)]
    notes += sampling_notes(results) if quantity.name == "test" else []
    return [*planned_notes(results, quantity), *filter(None, notes)]


def full_caption(results: Results, quantity: Quantity, second: str = "underlined") -> str:
    """The caption of a table with all notes on it."""
    return " ".join([caption(results, quantity, second), *remarks(results, quantity)])


def markdown(results: Results) -> str:
    """The tables as Markdown."""
    parts = [f"# {results.study.title}", results.study.question, *(f"> **{line}**" for line in notices(results))]
    emphasis = {"best": "**{}**", "second": "_{}_"}
    for quantity in results.study.quantities:
        lines = [
            piped(["method", "source", *(column.label for column in results.columns)]),
            piped(["---"] * 2 + ["---:"] * len(results.columns)),
        ]
        for line in table_lines(results, quantity):
            texts = [emphasis.get(mark, "{}").format(text) for text, mark in zip(line.texts, line.marks, strict=True)]
            lines.append(piped([line.method, line.source, *texts]))
        parts += [f"## {quantity.title}", "\n".join(lines), full_caption(results, quantity, "in italics")]
    if results.study.note:
        parts.append(results.study.note)
    return "\n\n".join(parts) + "\n"


_LATEX = {letter: f"\\{letter}" for letter in "&%_#${}"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "’": "'"}
_LATEX |= {"<": "$<$", ">": "$>$", "≥": r"$\ge$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$"}
_LATEX |= {"λ": r"$\lambda$", "γ": r"$\gamma$", "▲": r"$\uparrow$", "▼": r"$\downarrow$"}


def _tex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def latex(results: Results) -> str:
    """The tables as LaTeX, with booktabs."""
    tables = [_latex_table(results, quantity) for quantity in results.study.quantities]
    return "\n\n".join([r"% in the preamble: \usepackage{booktabs}", *tables]) + "\n"


def _latex_table(results: Results, quantity: Quantity) -> str:
    emphasis = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}
    lines = []
    for line in table_lines(results, quantity):
        texts = [emphasis.get(mark, "%s") % _tex(text) for text, mark in zip(line.texts, line.marks, strict=True)]
        lines.append(" & ".join([_tex(line.method), line.source, *texts]) + r" \\")
    title = " ".join([f"{results.study.title}: {quantity.title}.", *notices(results), full_caption(results, quantity)])
    head = " & ".join(["", "", *(_tex(column.label) for column in results.columns)]) + r" \\"
    opening = [r"\begin{table}[t]", r"\centering", rf"\caption{{{_tex(title)}}}"]
    opening += [rf"\begin{{tabular}}{{ll{'r' * len(results.columns)}}}", r"\toprule", head, r"\midrule"]
    closing = [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join([*opening, *lines, *closing])


FIELDS = (
    *("study", "row", "column", "quantity", "mean", "std", "standard_error", "runs"),
    *("reference_difference", "pairs", "p", "p_holm", "verdict", "auc_low", "auc_high"),
    *("test_positives", "test_negatives"),
    *("paper_mean", "paper_std", "good_mean", "good_std", "command"),
)


def csv_text(results: Results) -> str:
    """A line for every cell and quantity, with every number there is."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
    writer.writeheader()
    for quantity in results.study.quantities:
        writer.writerows(cell_numbers(results, quantity))
    return stream.getvalue()


def cell_numbers(results: Results, quantity: Quantity) -> list[dict[str, Any]]:
    """The numbers that there are of each cell, by `FIELDS`."""
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    return [_numbers(results, cell, quantity, compared[cell.column.label].get(cell.row.name)) for cell in results.cells]


def _numbers(results: Results, cell: Cell, quantity: Quantity, compared: Comparison | None) -> dict[str, Any]:
    row, column = cell.row, cell.column
    summary = results.summary(row, column, quantity)
    interval = results.auc_interval(row, column) if quantity.name == "test" else None
    values: dict[str, Any] = {"study": results.study.name, "row": row.name, "column": column.label}
    values |= {"quantity": quantity.name, "command": cell_command(results.study, cell, results.words)}
    if summary is not None:
        values |= {"mean": summary.mean, "std": summary.std, "standard_error": summary.error, "runs": summary.count}
    if compared is not None:
        values |= {"reference_difference": compared.difference, "pairs": compared.pairs, "p": compared.p}
        values |= {"p_holm": compared.adjusted, "verdict": compared.effect}
    if interval is not None:
        values |= dict(zip(("auc_low", "auc_high", "test_positives", "test_negatives"), interval, strict=True))
    for name, published in (
        ("paper", paper_value(results.study, row, column, quantity)),
        ("good", leaderboard_value(row, column, quantity)),
    ):
        if published is not None:
            values |= {f"{name}_mean": published.mean, f"{name}_std": published.std}
    return values
