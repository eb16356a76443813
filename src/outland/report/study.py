"""The report of a study: on the terminal, as Markdown, LaTeX and CSV, and as a self-contained HTML page."""

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.padding import Padding
from rich.text import Text

from outland.datasets import DataFolder
from outland.errors import OutlandError, counted
from outland.graphs import Cache
from outland.models import load_model
from outland.progress import screen
from outland.report.study_notes import notices
from outland.report.study_page import study_page
from outland.report.study_terminal import terminal_tables
from outland.report.study_text import csv_text, latex, markdown
from outland.settings import parse_assignments
from outland.spec import GROUPS, load_splits
from outland.storage.files import canonical_json, digest, write_text
from outland.studies import Cell, Study
from outland.studies.pictures import Picture, mask_pictures, smallest_of_each_class, truth_pictures
from outland.studies.results import Results
from outland.studies.run_store import RunStore


def write_report(
    study: Study,
    cells: Sequence[Cell],
    out: Path,
    words: Sequence[str] = (),
    data: DataFolder | None = None,
    cache: Cache | None = None,
    tuned: bool = False,
) -> Path:
    """Print the tables, write them into `out` as `.md`, `.tex`, `.csv` and `.html`, and return the page.

    Of rows since the paper it has those that have runs. `words` are the changes that the cells ran with,
    `tuned` says whether their settings are the results of searches; `data` and `cache` are for pictures of graphs.
    """
    results = Results.read(study, cells, out, words, tuned).with_begun_rows()
    shown = screen()
    for line in notices(results):
        shown.print(line, style="yellow", highlight=False, markup=False)
    for tables, notes in terminal_tables(results, shown.width):
        for table in tables:
            shown.print(table)
        for note in notes:
            shown.print(Padding(Text(note), (0, 0, 0, 2)), style="dim")
    pictures: dict[str, list[Picture]] = {}
    if "masks" in study.figures:
        try:
            pictures = stable_mask_pictures(results, out, data, cache)
        except OutlandError as problem:
            results.problems.append(f"the captured stable parts could not be drawn: {problem}")
    name = report_name(results)
    write_text(out / f"{name}.md", markdown(results))
    write_text(out / f"{name}.tex", latex(results))
    write_text(out / f"{name}.csv", csv_text(results))
    page = out / f"{name}.html"
    write_text(page, study_page(results, pictures))
    return page


def report_name(results: Results) -> str:
    """The study's name, with suffixes unless it is the whole study in the paper's setting: each has its own files."""
    study, parts = results.study, [results.study.name]
    if not results.has_default_counts:
        parts.append(counted(results.repeats, study.repeats[:-1]).replace(" ", "-"))
    flags = {
        "tuned": results.tuned,
        "part": not results.is_whole,
        "changed": bool(results.words),
    }
    parts += [name for name, is_set in flags.items() if is_set]
    if not results.is_whole or results.words:
        content = [[cell.name for cell in results.cells], parse_assignments(results.words, GROUPS)]
        parts.append(digest(canonical_json(content))[:6])
    return "-".join(parts)


def stable_mask_pictures(
    results: Results, out: Path, data: DataFolder | None, cache: Cache | None
) -> dict[str, list[Picture]]:
    """Test graphs of the first column with the truth, and with the stable mask of each row's first finished model."""
    store, column = RunStore(results.study, out), results.columns[0]
    pictures: dict[str, list[Picture]] = {}
    for cell in results.cells:
        finished = [
            index
            for index in sorted(results.records.get(cell.name, {}))
            if store.run_folder(cell.specs[index]).model_path.is_dir()  # an imported record has no model
        ]
        if cell.column != column or not finished:
            continue
        spec = cell.specs[finished[0]]
        splits = load_splits(spec, torch.device("cpu"), cache, data)
        index = smallest_of_each_class(splits, "test")
        graphs = splits.graphs.select(index)
        if not pictures and graphs.edge_truth is not None:
            pictures["truth"] = truth_pictures(graphs)
        method = load_model(store.run_folder(spec).path).method
        assert method is not None
        pictures[cell.row.name] = mask_pictures(method, splits, index, "stable")
    return pictures
