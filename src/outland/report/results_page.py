"""The page of results, docs/results.md, with all its tables, figures and numbers made from the records of runs.

python -m outland.report.results_page       # in the repository; `make results` does it
"""

import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from string import ascii_lowercase

from outland.report.deviations import Deviation, Remark, deviations, read_remarks, remark_on
from outland.report.figures import ranks
from outland.report.findings import describe_progress, enumerated, findings
from outland.report.published import Published, paper_value
from outland.report.study_text import ARROWS, format_value, piped
from outland.storage.files import write_text
from outland.studies import Column, Row, find_study
from outland.studies.quantities import ID_TEST, Quantity
from outland.studies.record_pool import pool_results, read_pool
from outland.studies.results import Results
from outland.studies.statistics import LEVEL

_WIDTH = 120
_DIGITS = 1  # of scores: standard errors are larger than a second one
_NO_BREAK = "\N{NO-BREAK SPACE}"


def write_results_page(root: Path) -> Path:
    """Write docs/results.md and docs/ranks.svg of the repository in `root` from its results/; returns the page."""
    results = with_runs(
        pool_results(find_study("covariate").with_newer(), read_pool([root / "results/records/covariate.jsonl.xz"]))
    )
    remarks = read_remarks(root / "results" / "remarks.toml", results)
    page, figure = root / "docs" / "results.md", ranks(results)
    page.parent.mkdir(parents=True, exist_ok=True)
    if figure is not None:
        write_text(page.with_name("ranks.svg"), standalone_svg(figure.drawings[0]))
    write_text(page, results_page(results, remarks))
    return page


def with_runs(results: Results) -> Results:
    """The results without those rows since the paper of which there are no runs."""
    study = results.study
    begun = {cell.row.name for cell in results.cells if results.records.get(cell.name)}
    rows = tuple(row for row in study.rows if row not in study.newer or row.name in begun)
    cells = [cell for cell in results.cells if cell.row in rows]
    return replace(results, study=replace(study, rows=rows), cells=cells)


def results_page(results: Results, remarks: Sequence[Remark]) -> str:
    """The page as Markdown."""
    parts = ["# Results", *map(_filled, _introduction(results)), score_table(results), _filled(_caption(results))]
    figure = ranks(results)
    if figure is not None:
        parts += [f"![{figure.title} with the critical difference](ranks.svg)", _filled(figure.caption)]
    parts += ["## What it says", "\n".join(_filled(line, "- ") for line in findings(results))]
    parts += ["## What differs from the paper", *_deviations(results, remarks), *_inside(results)]
    parts += ["## The same in full", _filled(_FULL)]
    return "\n\n".join(parts) + "\n"


_FULL = (
    "In a clone of the repository `outland study covariate --report` takes these records in and writes the HTML page, "
    "with learning curves, standard errors, p-values and the command behind every cell; no GPU is needed. "
    "[Studies](studies.md) has the tests, [Protocol](protocol.md) the setting, [Agreement](agreement.md) what else was "
    "checked."
)


def _filled(text: str, bullet: str = "") -> str:
    """Text in lines of the repository's width."""
    hanging = " " * len(bullet)
    wrapper = textwrap.TextWrapper(_WIDTH, bullet, hanging, break_on_hyphens=False, break_long_words=False)
    return wrapper.fill(text)


def _introduction(results: Results) -> list[str]:
    records = [record for runs in results.records.values() for record in runs.values()]
    devices = enumerated(sorted({record.platform.get("device", "an unnamed device") for record in records}))
    torch = enumerated(sorted({record.platform.get("torch", "?") for record in records}))
    return [
        f"{results.study.title}. {results.study.question} `make results` computes every number on this page from the "
        f"records of finished runs in `results/records/` (on {devices}, PyTorch {torch}). No setting was chosen "
        "by a test score.",
        describe_progress(results),
    ]


def score_table(results: Results) -> str:
    """A line for each row, ours and below it the paper's, a dash where there is no run."""
    quantity, study = results.study.quantities[0], results.study
    marks = {column.label: results.marks(column, quantity) for column in results.columns}
    compared = {column.label: results.comparisons(column, quantity) for column in results.columns}

    def entry(row: Row, column: Column) -> str:
        text = _scores(results, row, column, quantity)
        if marks[column.label].get(row.name) == "best":
            text = f"**{text}**"
        comparison = compared[column.label].get(row.name)
        arrow = "" if comparison is None else ARROWS[comparison.effect]
        paper = format_value(paper_value(study, row, column, quantity), _DIGITS)
        return f"{text} {arrow}".strip().replace(" ", _NO_BREAK) + f"<br>*{paper.replace(' ', _NO_BREAK)}*"

    lines = [[_name(row), *(entry(row, column) for column in results.columns)] for row in results.rows]
    return _table(["", *(column.label for column in results.columns)], lines)


def _name(row: Row) -> str:
    return f"{row.label} ({row.group})" if row.group else row.label


def _scores(results: Results, row: Row, column: Column, quantity: Quantity) -> str:
    """Mean ± standard deviation, and the number of seeds where it is not the usual one; a dash for none.

    Where seeds are missing, it says of how many they are.
    """
    summary, planned = results.summary(row, column, quantity), results.study.default_count(row, column)
    if summary is None:
        return "–"
    number = "" if summary.count == results.study.seeds else f" ({summary.count})"
    if summary.count < planned:
        number = f" ({summary.count} of {planned})"
    return format_value(Published(summary.mean, summary.std if summary.count > 1 else None), _DIGITS) + number


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(piped(line) for line in (head, rule, *lines))


def _caption(results: Results) -> str:
    study = results.study
    return (
        "Test score in %, ROC-AUC on molecules and accuracy elsewhere: ours, and below it *the paper's*. Mean ± "
        f"population standard deviation over {study.seeds} {study.repeats}, or as many as the brackets say; best of "
        f"ours in bold, among cells whose runs are all there. ▲ ▼ better or worse than {study.reference} by a "
        f"sign-flip test over {study.repeats}, Holm's "
        f"correction over the column, p < {LEVEL}. {study.note}"
    )


def _deviations(results: Results, remarks: Sequence[Remark]) -> list[str]:
    """Which cells differ from the paper's by more than two standard errors, with what is known of them."""
    every = deviations(results)
    large = [deviation for deviation in every if deviation.is_large]
    above = sum(deviation.difference > 0 for deviation in large)
    text = (
        f"{len(large)} of {len(every)} cells differ from the paper's by more than two standard errors of the "
        f"difference, {above} above and {len(large) - above} below; were both drawn from one law, about one in twenty "
        "would. The largest comes first. Remarks are written by hand; where there is none, no cause is known."
    )
    used = dict.fromkeys(remark for cell in large if (remark := remark_on(cell.cell, remarks)) is not None)
    letters = dict(zip(used, ascii_lowercase, strict=False))
    lines = [_deviation(cell, letters, remarks) for cell in large]
    notes = "\n".join(_filled(f"**{letter}** {remark.text}", "- ") for remark, letter in letters.items())
    head = ["cell", "ours", "paper", "difference", "standard error", "remark"]
    return [_filled(text), *([_table(head, lines)] if lines else []), *([notes] if notes else [])]


def _deviation(deviation: Deviation, letters: dict[Remark, str], remarks: Sequence[Remark]) -> list[str]:
    remark = remark_on(deviation.cell, remarks)
    numbers = [f"{deviation.ours.mean:.2f}", f"{deviation.paper.mean:.2f}", f"{deviation.difference:+.2f}"]
    return [deviation.cell, *numbers, f"{deviation.error:.2f}", "" if remark is None else letters[remark]]


def _inside(results: Results) -> list[str]:
    """The scores on new graphs of the training law, of the cells whose dataset has such a part."""
    there = [cell for cell in results.cells if results.summary(cell.row, cell.column, ID_TEST) is not None]
    if not there:
        return []
    rows = list({cell.row.name: cell.row for cell in there}.values())
    columns = [column for column in results.columns if any(cell.column == column for cell in there)]
    lines = [[row.name, *(_scores(results, row, column, ID_TEST) for column in columns)] for row in rows]
    text = (
        "The score of the same models on new graphs of the training law, where the dataset has such a part (id test), "
        "in %. The paper does not print it."
    )
    return ["## Within the training law", _filled(text), _table(["", *(column.label for column in columns)], lines)]


def standalone_svg(drawing: str) -> str:
    """A drawing for a page as a file of its own, in the page's light colours."""
    style = files("outland.report").joinpath("page.css").read_text(encoding="utf-8")
    colours = dict(reversed(re.findall(r"--(\w+): (#[0-9a-f]{6})", style)))  # the light ones come first
    drawing = re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], drawing).replace("'DejaVu Sans'", "sans-serif")
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    ground = f'<rect width="100%" height="100%" fill="{colours["paper"]}"/>'
    return re.sub(r"<svg ([^>]*)>", rf"<svg {names} \1>{ground}", drawing, count=1) + "\n"


if __name__ == "__main__":
    print(write_results_page(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
