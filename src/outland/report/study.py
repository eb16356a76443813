"""The report of a study: terminal, Markdown, LaTeX, CSV, and one self-contained HTML page."""

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.files import write_text
from outland.graphs import Cache
from outland.report.study_page import page
from outland.report.study_text import csv_text, latex, markdown, terminal_tables
from outland.studies import Cell, Study
from outland.studies.ledger import Ledger
from outland.studies.pictures import Picture, mask_pictures, one_of_each_class, truth_pictures
from outland.studies.results import Results
from outland.training import load_model
from outland.training.runs import load_splits


def write_report(
    study: Study,
    cells: Sequence[Cell],
    out: Path,
    words: Sequence[str] = (),
    data: DataFolder | None = None,
    cache: Cache | None = None,
) -> Path:
    """Print the tables, write `NAME.md`, `.tex`, `.csv` and `.html` into `out`, and return the page.

    Args:
        study, cells, out: as they were run.
        words: the changes they ran with.
        data, cache: where pictures of graphs may find them.
    """
    results = Results.read(study, cells, out)
    screen = Console()
    for table in terminal_tables(results):
        screen.print(table)
    pictures: dict[str, list[Picture]] = {}
    if "masks" in study.figures:
        try:
            pictures = stable_parts(results, out, data, cache)
        except OutlandError as problem:
            results.problems.append(f"the captured stable parts could not be drawn: {problem}")
    target = out / f"{study.name}.html"
    write_text(out / f"{study.name}.md", markdown(results))
    write_text(out / f"{study.name}.tex", latex(results))
    write_text(out / f"{study.name}.csv", csv_text(results, words))
    write_text(target, page(results, words, pictures))
    return target


def stable_parts(results: Results, out: Path, data: DataFolder | None, cache: Cache | None) -> dict[str, list[Picture]]:
    """Some test graphs of the first column: the truth, then the stable mask of each row's first finished model."""
    ledger, column = Ledger(results.study, out), results.columns[0]
    found: dict[str, list[Picture]] = {}
    for cell in results.cells:
        places = sorted(results.records.get(cell.name, {}))
        if cell.column != column or not places:
            continue
        spec = cell.specs[places[0]]
        splits = load_splits(spec, torch.device("cpu"), cache, data)
        index = one_of_each_class(splits, "test")
        chosen = splits.graphs.select(index)
        if not found and chosen.edge_truth is not None:
            found["truth"] = truth_pictures(chosen)
        found[cell.row.name] = mask_pictures(load_model(ledger.folder(spec).path), splits, index, "stable")
    return found
