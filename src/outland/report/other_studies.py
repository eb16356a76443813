"""What the page of results says of the studies beside its own: how far each is, and a section where there is enough."""

from collections.abc import Collection, Mapping

from outland.errors import counted
from outland.report.findings import devices_phrase, enumerated
from outland.report.markdown import filled, pipe_table
from outland.report.score_tables import score_table
from outland.report.study_notes import power_note
from outland.studies import Column, Row
from outland.studies.results import Results

_SHARE = 0.5  # of a study's cells from which on it has a section though it has no records of its own


def other_studies(studies: Mapping[str, Results], own: Collection[str]) -> list[str]:
    """A table of the studies and a section for each that has something to show.

    Args:
        studies: results by the name of the study.
        own: the studies of which there is a file of records; others have only runs that they share.
    """
    lines, sections = list[list[str]](), list[str]()
    for name, results in studies.items():
        cells = [cell for cell in results.cells if _values(results, cell.row, cell.column)]
        shown = bool(cells) and (name in own or len(cells) >= _SHARE * len(results.cells))
        title = f"[{results.study.title}](#{_anchor(results)})" if shown else results.study.title
        lines.append([f"`{name}`", title, f"{len(cells)} of {len(results.cells)}"])
        sections += study_section(results) if shown else []
    text = (
        "The other studies, and how many of their cells have runs, which studies share. A study with few runs of its "
        "own has no section yet. A study's own page, with figures, is written by `--report`, as in "
        "`outland study masks --report`."
    )
    table = pipe_table(["study", "", "cells"], lines, left=(0, 1))
    return ["## Other studies", filled(text), table, *sections]


def study_section(results: Results) -> list[str]:
    """The study's tables, without rows and columns of which nothing is there."""
    cells = [cell for cell in results.cells if _values(results, cell.row, cell.column)]
    rows, columns = {cell.row.name for cell in cells}, {cell.column.label for cell in cells}
    there = [q for q in results.study.quantities if any(results.values(cell.row, cell.column, q) for cell in cells)]
    here = Results(
        results.study,
        [cell for cell in results.cells if cell.row.name in rows and cell.column.label in columns],
        records=results.records,
        measurements=results.measurements,
    )
    devices = f" On {devices_phrase(results)}." if results.records else ""
    parts = [f"### {results.study.title}", filled(results.study.question + devices)]
    for quantity in there:
        table = score_table(here, quantity)
        parts += [f"**{quantity.title}**", table] if len(there) > 1 else [table]
    return [*parts, filled(_caption(here, "<br>" in "".join(parts)))]


def _caption(results: Results, has_published: bool) -> str:
    """What stands in the tables of a section."""
    study = results.study
    ours = "Ours, and below it *the paper's* where it has any: mean" if has_published else "Mean"
    arrows = f", ▲ ▼ better or worse than {study.reference} by the test of the first table" if study.reference else ""
    note = power_note(results, study.quantities[0])
    text = f"{ours} ± standard deviation over {_repeats(results)}, best in bold{arrows}. {note} {study.note}"
    return " ".join(text.split())


def _repeats(results: Results) -> str:
    """How many seeds or folds a cell has, by column where they differ, and which of those of the first table."""
    study = results.study
    counts = {column.label: max(study.default_count(row, column) for row in results.rows) for column in results.columns}
    most = max(counts.values())
    fewer = [f"{count} on {label}" for label, count in counts.items() if count < most]
    number = counted(most, study.repeats[:-1]) + (f" ({enumerated(fewer)})" if fewer else "")
    return number if study.repeats == "folds" else f"{number}, the first ones where the first table has more"


def _values(results: Results, row: Row, column: Column) -> bool:
    """Whether any number of a cell is there."""
    return any(results.values(row, column, quantity) for quantity in results.study.quantities)


def _anchor(results: Results) -> str:
    """Its heading's name in links."""
    words = "".join(letter for letter in results.study.title.lower() if letter.isalnum() or letter in " -")
    return words.replace(" ", "-")
