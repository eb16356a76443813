"""A study's table in text: for the terminal, Markdown, LaTeX and CSV. Ours, the paper's and the leaderboard's."""

import csv
import io
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from outland.report.published import Published, in_paper, on_leaderboard
from outland.studies import Cell, Column, Row, Study
from outland.studies.commands import cell_command
from outland.studies.quantities import Quantity
from outland.studies.results import Comparison, Results

ARROWS = {"better": "▲", "worse": "▼", "not shown": ""}
SOURCES = ("ours", "paper", "GOOD")


def plan_table(study: Study, cells: Sequence[Cell], states: Mapping[str, Sequence[str]]) -> Table:
    """Which runs there are and where they stand: done of all, for every cell."""
    table = Table(title=f"{study.name}: {study.title}", caption="runs done of all; ! failed, … begun")
    table.add_column("")
    columns = list(dict.fromkeys(cell.column.label for cell in cells))
    for column in columns:
        table.add_column(column, justify="right")
    by_row: dict[str, dict[str, str]] = {}
    for cell in cells:
        found = states[cell.name]
        mark = "!" if "failed" in found else "…" if "begun" in found else ""
        words = f"{found.count('done')}/{len(found)}{mark}"
        by_row.setdefault(cell.row.name, {})[cell.column.label] = words
    for row, entries in by_row.items():
        table.add_row(row, *(entries.get(column, "") for column in columns))
    return table


def number(value: Published | None, digits: int) -> str:
    """Mean ± standard deviation, or a dash."""
    if value is None:
        return "–"
    spread = "" if value.std is None else f" ± {value.std:.{digits}f}"
    return f"{value.mean:.{digits}f}{spread}"


def ours(results: Results, row: Row, column: Column, quantity: Quantity) -> Published | None:
    """Our own number of a cell; a single run has no spread."""
    found = results.summary(row, column, quantity)
    return None if found is None else Published(found.mean, found.std if found.count > 1 else None)


def sourced(results: Results, row: Row, column: Column, quantity: Quantity) -> dict[str, Published | None]:
    """A cell's number by source."""
    return {
        "ours": ours(results, row, column, quantity),
        "paper": in_paper(results.study, row, column, quantity),
        "GOOD": on_leaderboard(row, column, quantity),
    }


def terminal_tables(results: Results) -> list[tuple[Table, str]]:
    """A table a quantity, and what its marks mean: best bold, second underlined, ▲ ▼ where a difference is shown."""
    return [(_terminal(results, quantity), _under(results, quantity)) for quantity in results.study.quantities]


def _terminal(results: Results, quantity: Quantity) -> Table:
    table = Table(title=f"{results.study.title} · {quantity.title}", title_justify="left")
    table.add_column("")
    table.add_column("")
    for column in results.columns:
        table.add_column(column.label, justify="right")
    marks = {column.label: results.marks(column, quantity) for column in results.columns}
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    styles = {"best": "bold", "second": "underline"}
    for row in results.rows:
        for source, words in _lines(results, row, quantity, compared):
            cells = [
                Text(word, styles.get(marks[column.label].get(row.name, ""), "") if source == "ours" else "dim")
                for column, word in zip(results.columns, words, strict=True)
            ]
            table.add_row(row.name if source == "ours" else "", Text(source, "dim"), *cells)
    return table


def _lines(
    results: Results, row: Row, quantity: Quantity, compared: Mapping[str, Mapping[str, Comparison]]
) -> list[tuple[str, list[str]]]:
    """The lines of a row: ours always, a published source where it has any number."""
    cells = [sourced(results, row, column, quantity) for column in results.columns]
    lines = []
    for source in SOURCES:
        if source != "ours" and not any(cell[source] for cell in cells):
            continue
        words = [number(cell[source], quantity.digits) for cell in cells]
        if source == "ours":
            found = [compared[column.label].get(row.name) for column in results.columns]
            words = [
                f"{word} {ARROWS[one.effect]}".strip() if one else word for word, one in zip(words, found, strict=True)
            ]
        lines.append((source, words))
    return lines


def caption(results: Results, quantity: Quantity, second: str = "underlined") -> str:
    """What the marks mean; `second` is how the second best is marked."""
    words = [f"mean ± standard deviation over {results.study.repeats}"]
    if quantity.sign:
        words.append(f"best bold, second {second}")
    if results.study.reference and quantity.sign:
        words.append(
            f"▲ ▼ better or worse than {results.study.reference}: exact paired sign-flip test over "
            f"{results.study.repeats}, Holm's correction over the column, p < 0.05"
        )
    return "; ".join(words) + "."


def remarks(results: Results, quantity: Quantity) -> list[str]:
    """What the numbers of a table cannot tell: where seeds or positives are too few."""
    weak = results.power_note(quantity)
    return [*([weak] if weak else []), *(results.sampling_notes() if quantity.name == "test" else [])]


def _under(results: Results, quantity: Quantity, second: str = "underlined") -> str:
    return " ".join([caption(results, quantity, second), *remarks(results, quantity)])


def markdown(results: Results) -> str:
    """The tables as Markdown."""
    parts = [f"# {results.study.title}", results.study.question, *(f"> **{line}**" for line in results.notices())]
    for quantity in results.study.quantities:
        marks = {column.label: results.marks(column, quantity) for column in results.columns}
        compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
        head = ["method", "source", *(column.label for column in results.columns)]
        lines = [_piped(head), _piped(["---"] * 2 + ["---:"] * len(results.columns))]
        for row in results.rows:
            for source, words in _lines(results, row, quantity, compared):
                if source == "ours":
                    words = [
                        {"best": f"**{word}**", "second": f"_{word}_"}.get(marks[column.label].get(row.name, ""), word)
                        for column, word in zip(results.columns, words, strict=True)
                    ]
                lines.append(_piped([row.name if source == "ours" else "", source, *words]))
        parts += [f"## {quantity.title}", "\n".join(lines), _under(results, quantity, "in italics")]
    if results.study.note:
        parts.append(results.study.note)
    return "\n\n".join(parts) + "\n"


def _piped(words: Sequence[str]) -> str:
    return "| " + " | ".join(word.replace("|", "\\|") for word in words) + " |"


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
    marks = {column.label: results.marks(column, quantity) for column in results.columns}
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    wrap = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}
    lines = []
    for row in results.rows:
        for source, words in _lines(results, row, quantity, compared):
            texts = [_tex(word) for word in words]
            if source == "ours":
                texts = [
                    wrap.get(marks[column.label].get(row.name, ""), "%s") % text
                    for column, text in zip(results.columns, texts, strict=True)
                ]
            lines.append(" & ".join([_tex(row.name) if source == "ours" else "", source, *texts]) + r" \\")
    title = " ".join([f"{results.study.title}: {quantity.title}.", *results.notices(), _under(results, quantity)])
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
        compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
        for cell in results.cells:
            one = compared[cell.column.label].get(cell.row.name)
            writer.writerow(_csv_row(results, cell, quantity, one))
    return stream.getvalue()


def _csv_row(results: Results, cell: Cell, quantity: Quantity, one: Comparison | None) -> dict[str, object]:
    row, column = cell.row, cell.column
    found = results.summary(row, column, quantity)
    interval = results.auc_interval(row, column) if quantity.name == "test" else None
    plain: dict[str, object] = {"study": results.study.name, "row": row.name, "column": column.label}
    plain |= {"quantity": quantity.name, "command": cell_command(results.study, cell, results.words)}
    if found is not None:
        plain |= {"mean": found.mean, "std": found.std, "standard_error": found.error, "runs": found.count}
    if one is not None:
        plain |= {"reference_difference": one.difference, "pairs": one.pairs, "p": one.p, "p_holm": one.adjusted}
        plain["verdict"] = one.effect
    if interval is not None:
        plain |= dict(zip(("auc_low", "auc_high", "test_positives", "test_negatives"), interval, strict=True))
    for name, value in (
        ("paper", in_paper(results.study, row, column, quantity)),
        ("good", on_leaderboard(row, column, quantity)),
    ):
        if value is not None:
            plain |= {f"{name}_mean": value.mean, f"{name}_std": value.std}
    return plain
