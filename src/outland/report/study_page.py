"""One self-contained HTML page a study: no network, no other file."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from outland.errors import counted
from outland.recipes import recipe_for
from outland.report.figures import figures
from outland.report.html import rendered
from outland.report.published import Published, in_paper, on_leaderboard
from outland.report.study_text import ARROWS, caption, number, ours, remarks
from outland.studies import Cell
from outland.studies.commands import cell_command
from outland.studies.pictures import Picture
from outland.studies.quantities import Quantity
from outland.studies.results import Comparison, Results

_MANY = 8  # names in a sentence


def page(results: Results, pictures: Mapping[str, list[Picture]]) -> str:
    """The page, as text."""
    study = results.study
    done = sum(len(found) for found in (results.measurements if study.measure else results.records).values())
    shown = figures(results, pictures)
    tables = [_matrix(results, quantity) for quantity in study.quantities]
    return rendered(
        "page.html",
        style=("page.css",),
        script=("page.js",),
        study=study,
        notices=results.notices(),
        made=time.strftime("%Y-%m-%d"),
        done=done,
        all=counted(sum(len(cell.specs) for cell in results.cells), "run"),
        machine=_machine(results),
        findings=findings(results),
        tables=tables,
        columns=[column.label for column in results.columns],
        figures=[{**vars(one), "drawings": [Markup(drawing) for drawing in one.drawings]} for one in shown],
        cells=[row for quantity in study.quantities for row in _cells(results, quantity)],
        good=any(entry["good"] for table in tables for row in table["rows"] for entry in row["entries"]),
        several=len(study.quantities) > 1,
        recipes=_recipes(results),
        problems=results.problems,
    )


def findings(results: Results) -> list[str]:
    """What may be said of the first quantity, column by column: nothing is called better that is not shown to be."""
    quantity, lines = results.study.quantities[0], []
    reference = results.study.reference
    for column in results.columns:
        compared = results.comparisons(column, quantity)
        better = [name for name, one in compared.items() if one.effect == "better"]
        worse = [name for name, one in compared.items() if one.effect == "worse"]
        if not compared:
            continue
        told = [f"{_listed(better, len(compared))} better than {reference}"] if better else []
        told += [f"{_listed(worse, len(compared))} worse than {reference}"] if worse else []
        lines.append(f"{column.label}: {' and '.join(told) or f'no difference to {reference} is shown'}.")
    return lines + remarks(results, quantity)


def _listed(names: Sequence[str], of: int) -> str:
    if len(names) > _MANY:
        return f"{len(names)} of {of} rows are"
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"


def _matrix(results: Results, quantity: Quantity) -> dict[str, Any]:
    """Rows and columns of one quantity, each entry with its three sources."""
    rows = []
    marks = {column.label: results.marks(column, quantity) for column in results.columns}
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    for row in results.rows:
        entries = []
        for column in results.columns:
            found = ours(results, row, column, quantity)
            one = compared[column.label].get(row.name)
            entries.append(
                {
                    "value": "" if found is None else found.mean,
                    "ours": number(found, quantity.digits),
                    "mark": marks[column.label].get(row.name, ""),
                    "arrow": "" if one is None else ARROWS[one.effect],
                    "paper": _maybe(in_paper(results.study, row, column, quantity), quantity),
                    "good": _maybe(on_leaderboard(row, column, quantity), quantity),
                }
            )
        rows.append({"name": row.name, "entries": entries})
    return {"title": quantity.title, "rows": rows, "caption": caption(results, quantity)}


def _maybe(value: Published | None, quantity: Quantity) -> str:
    return "" if value is None else number(value, quantity.digits)


def _cells(results: Results, quantity: Quantity) -> list[dict[str, Any]]:
    """Every cell in full, for the long table."""
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    return [_cell(results, cell, quantity, compared[cell.column.label].get(cell.row.name)) for cell in results.cells]


def _cell(results: Results, cell: Cell, quantity: Quantity, one: Comparison | None) -> dict[str, Any]:
    row, column, digits = cell.row, cell.column, quantity.digits
    found = results.summary(row, column, quantity)
    interval = results.auc_interval(row, column) if quantity.name == "test" else None
    paper, good = in_paper(results.study, row, column, quantity), on_leaderboard(row, column, quantity)
    return {
        "row": row.name,
        "column": column.label,
        "quantity": quantity.title,
        "mean": found,
        "ours": number(ours(results, row, column, quantity), digits),
        "error": "" if found is None or found.count < 2 else f"{found.error:.{digits}f}",
        "runs": f"{0 if found is None else found.count}/{len(cell.specs)}",
        "difference": "" if one is None else f"{one.difference:+.{digits}f}",
        "p": "" if one is None or one.adjusted != one.adjusted else f"{one.adjusted:.3f}",
        "verdict": "" if one is None else one.effect,
        "interval": "" if interval is None else f"{interval[0]:.1f}–{interval[1]:.1f} ({min(interval[2:])})",
        "classes": "" if interval is None else f"from {interval[2]:,} positives and {interval[3]:,} negatives",
        "paper": number(paper, digits),
        "paper_mean": "" if paper is None else paper.mean,
        "good": number(good, digits),
        "good_mean": "" if good is None else good.mean,
        "command": cell_command(results.study, cell, results.words),
    }


def _recipes(results: Results) -> list[dict[str, Any]]:
    """The hyper-parameters of every dataset and method in the study, with their sources."""
    tables = []
    methods = {row.method: row for row in results.rows}
    for column in results.columns:
        recipe = recipe_for(column.dataset)
        if recipe is None:
            continue
        lines: dict[tuple[str, str, str], tuple[Any, str]] = {}
        for row in methods.values():
            for one in recipe.settings_for(column.dataset, column.domain, column.kind, row.method):
                of = row.method if one.group == "method" else "all"
                lines[of, one.group, one.name] = (one.value, one.source)
        rows = [(of, f"{group}.{name}", *rest) for (of, group, name), rest in lines.items()]
        tables.append({"column": column.label, "rows": sorted(rows, key=lambda line: line[0] != "all")})
    return tables


def _machine(results: Results) -> str:
    for found in results.records.values():
        for record in found.values():
            about = dict.fromkeys(("device", "torch", "python", "outland"), "?") | record.platform
            return f"{about['device']}, PyTorch {about['torch']}, Python {about['python']}, outland {about['outland']}"
    return ""
