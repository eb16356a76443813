"""The self-contained HTML page of a study."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from outland.errors import counted
from outland.recipes import recipe_for
from outland.report.figures import figures
from outland.report.findings import devices_phrase
from outland.report.html import render_page
from outland.report.published import Published, leaderboard_value, paper_value
from outland.report.study_notes import notices
from outland.report.study_text import ARROWS, FIELDS, caption, cell_numbers, format_value, our_value, remarks
from outland.studies import Cell
from outland.studies.pictures import Picture
from outland.studies.quantities import Quantity
from outland.studies.results import Results

_MAX_NAMES = 8  # in a sentence


def study_page(results: Results, pictures: Mapping[str, list[Picture]]) -> str:
    """The page as text; `pictures` are of graphs with their masks, by method."""
    study = results.study
    done = sum(len(runs) for runs in (results.measurements if study.measure else results.records).values())
    tables = [_matrix(results, quantity) for quantity in study.quantities]
    return render_page(
        "page.html",
        style=("page.css",),
        script=("page.js",),
        study=study,
        notices=notices(results),
        made=time.strftime("%Y-%m-%d"),
        done=f"{done:,}",
        all=counted(sum(len(cell.specs) for cell in results.cells), "run"),
        platform=_platform(results),
        conclusions=conclusions(results),
        tables=tables,
        columns=[column.label for column in results.columns],
        figures=[
            {**vars(figure), "drawings": [Markup(drawing) for drawing in figure.drawings]}
            for figure in figures(results, pictures)
        ],
        cells=[row for quantity in study.quantities for row in _cells(results, quantity)],
        good=any(entry["good"] for table in tables for row in table["rows"] for entry in row["entries"]),
        several=len(study.quantities) > 1,
        recipes=_recipes(results),
        problems=results.problems,
    )


def conclusions(results: Results) -> list[str]:
    """Which rows are shown to be better or worse than the reference in the first quantity, column by column."""
    quantity, reference, lines = results.study.quantities[0], results.study.reference, []
    display = {row.name: results.study.display_name(row) for row in results.rows}
    for column in results.columns:
        compared, clauses = results.comparisons(column, quantity), []
        if not compared:
            continue
        for effect in ("better", "worse"):
            names = [display[name] for name, comparison in compared.items() if comparison.effect == effect]
            clauses += [f"{_listed(names, len(compared))} {effect} than {reference}"] if names else []
        lines.append(f"{column.label}: {' and '.join(clauses) or f'no difference to {reference} is shown'}.")
    return lines + remarks(results, quantity)


def _listed(names: Sequence[str], total: int) -> str:
    if len(names) > _MAX_NAMES:
        return f"{len(names)} of {total} rows are"
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"


def _matrix(results: Results, quantity: Quantity) -> dict[str, Any]:
    """Rows of one quantity's table, each entry with its three sources."""
    rows = []
    marks = {column.label: results.marks(column, quantity) for column in results.columns}
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}
    for row in results.rows:
        entries = []
        for column in results.columns:
            value, comparison = our_value(results, row, column, quantity), compared[column.label].get(row.name)
            entries.append(
                {
                    "value": "" if value is None else value.mean,
                    "ours": format_value(value, quantity.digits),
                    "mark": marks[column.label].get(row.name, ""),
                    "arrow": "" if comparison is None else ARROWS[comparison.effect],
                    "paper": _published(paper_value(results.study, row, column, quantity), quantity),
                    "good": _published(leaderboard_value(row, column, quantity), quantity),
                }
            )
        name = results.study.display_name(row)
        rows.append({"name": name, "group": row.group if name != row.name else "", "entries": entries})
    return {"title": quantity.title, "rows": rows, "caption": caption(results, quantity)}


def _published(value: Published | None, quantity: Quantity) -> str:
    return "" if value is None else format_value(value, quantity.digits)


def _cells(results: Results, quantity: Quantity) -> list[dict[str, Any]]:
    """Rows of the table of all cells."""
    numbers = cell_numbers(results, quantity)
    return [_cell(results, cell, quantity, values) for cell, values in zip(results.cells, numbers, strict=True)]


def _cell(results: Results, cell: Cell, quantity: Quantity, values: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a cell, and beside them texts for the page."""
    row, column, digits, runs = cell.row, cell.column, quantity.digits, values.get("runs", 0)
    positives, negatives = values.get("test_positives", 0), values.get("test_negatives", 0)
    texts = {
        "quantity": quantity.title,
        "ours": format_value(our_value(results, row, column, quantity), digits),
        "error": f"{values['standard_error']:.{digits}f}" if runs > 1 else "",
        "runs": f"{runs}/{len(cell.specs)}",
        "difference": f"{values['reference_difference']:+.{digits}f}" if "verdict" in values else "",
        "p": "" if math.isnan(values.get("p_holm", math.nan)) else f"{values['p_holm']:.3f}",
        "paper": format_value(paper_value(results.study, row, column, quantity), digits),
        "good": format_value(leaderboard_value(row, column, quantity), digits),
        "interval": "",
        "classes": "",
    }
    if "auc_low" in values:
        texts["interval"] = f"{values['auc_low']:.1f}–{values['auc_high']:.1f} ({min(positives, negatives)})"
        texts["classes"] = f"from {positives:,} positives and {negatives:,} negatives"
    return dict.fromkeys(FIELDS, "") | values | texts


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
            for setting in recipe.settings_for(column.dataset, column.domain, column.kind, row.method):
                method = row.method if setting.group == "method" else "all"
                lines[method, setting.group, setting.name] = (setting.value, setting.source)
        rows = [(method, f"{group}.{name}", *rest) for (method, group, name), rest in lines.items()]
        tables.append({"column": column.label, "rows": sorted(rows, key=lambda line: line[0] != "all")})
    return tables


def _platform(results: Results) -> str:
    for runs in results.records.values():
        for record in runs.values():
            about = {name: text for name, text in record.platform.items() if text != "not installed"}
            packages = {"PyTorch": "torch", "Python": "python", "outland": "outland"}
            versions = [f"{title} {about[name]}" for title, name in packages.items() if name in about]
            return ", ".join([devices_phrase(results), *versions])
    return ""
