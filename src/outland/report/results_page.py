"""The pages of results, docs/results.md and docs/cost.md, with all tables and numbers made from the records of runs.

Of docs/ours.md it is the table of published datasets alone.

python -m outland.report.results_page       # in the repository; `make results` does it
"""

import re
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import ascii_lowercase

from outland.report.cost_page import cost_page
from outland.report.deviations import Deviation, Remark, deviations, read_remarks, remark_on
from outland.report.figures import ranks
from outland.report.findings import describe_progress, devices_phrase, enumerated, findings
from outland.report.findings_tables import difference_table, few_graphs_table, planned_table
from outland.report.markdown import filled, pipe_table
from outland.report.other_studies import other_studies
from outland.report.ours_table import with_table
from outland.report.score_tables import cell_scores, score_table
from outland.report.study_notes import power_note, stand_in_note
from outland.storage.files import write_text
from outland.studies import STUDIES, find_study
from outland.studies.quantities import ID_TEST
from outland.studies.record_pool import SUFFIX, pool_results, read_pool
from outland.studies.results import Results
from outland.studies.statistics import LEVEL

_FIRST = 10  # deviations from the paper, the largest, whose cause should have been looked for


def write_results_pages(root: Path) -> list[Path]:
    """Write the pages and docs/ranks.svg of the repository in `root` from its results/; returns the pages."""
    record_files = sorted((root / "results" / "records").glob(f"*{SUFFIX}"))
    pool = read_pool(record_files)
    everything = {name: pool_results(find_study(name).with_newer(), pool).with_begun_rows() for name in STUDIES}
    results, cost = everything.pop("covariate"), everything.pop("cost")
    remarks = read_remarks(root / "results" / "remarks.toml", results)
    own = {file.name.removesuffix(SUFFIX) for file in record_files}
    docs, figure = root / "docs", ranks(results)
    docs.mkdir(parents=True, exist_ok=True)
    if figure is not None:
        write_text(docs / "ranks.svg", standalone_svg(figure.drawings[0]))
    write_text(docs / "results.md", results_page(results, remarks, other_studies(everything, own)))
    write_text(docs / "cost.md", cost_page(cost))
    ours = docs / "ours.md"
    if ours.exists():
        write_text(ours, with_table(ours.read_text(encoding="utf-8"), results, everything["masks"]))
    return [docs / "results.md", docs / "cost.md"]


def results_page(results: Results, remarks: Sequence[Remark], others: Sequence[str] = ()) -> str:
    """The page as Markdown; `others` is what it says of other studies."""
    quantity = results.study.quantities[0]
    parts = ["# Results", *map(filled, _introduction(results)), score_table(results, quantity)]
    parts.append(filled(_caption(results)))
    figure = ranks(results)
    if figure is not None:
        parts += [f"![{figure.title} with the critical difference](ranks.svg)", filled(figure.caption)]
    sentences = findings(results)
    if sentences:
        numbered = "\n".join(filled(line, f"{number}. ") for number, line in enumerate(sentences, start=1))
        parts += ["## What it says", numbered, *_numbers(results)]
    parts += ["## What differs from the paper", *_deviations(results, remarks), *_inside(results), *others]
    parts += ["## The same in full", filled(_FULL)]
    return "\n\n".join(parts) + "\n"


_FULL = (
    "In a clone of the repository `outland study covariate --report` takes these records in and writes the HTML page, "
    "with learning curves, standard errors, p-values and the command behind every cell; no GPU is needed. "
    "[Studies](studies.md) has the tests, [Protocol](protocol.md) the setting, [Cost](cost.md) time and size, "
    "[Agreement](agreement.md) what else was checked."
)


def _introduction(results: Results) -> list[str]:
    records = [record for runs in results.records.values() for record in runs.values()]
    torch = enumerated(sorted({record.platform.get("torch", "?") for record in records}))
    return [
        f"{results.study.title}. {results.study.question} `make results` computes every number on this page from the "
        f"records of finished runs in `results/records/` (on {devices_phrase(results)}, PyTorch {torch}). No "
        "setting was chosen by a test score of these data.",
        describe_progress(results),
    ]


def _caption(results: Results) -> str:
    study = results.study
    since = (
        " Rows since the paper, and our own, stand below the paper's; they are compared and ranked in the same way. "
        "Settings of the others are their papers' and codes', those of our own were chosen by test scores on other "
        "draws of these data, and part of what it gains comes with inputs that ERM could read as well ([Our own "
        "method](ours.md) has the ablation)."
        if study.has_newer
        else ""
    )
    return (
        "Test score in %, ROC-AUC on molecules and accuracy elsewhere: ours, and below it *the paper's*. Mean ± "
        f"population standard deviation over {study.seeds} {study.repeats}; where some are missing, brackets say so. "
        f"Best of ours in bold. ▲ ▼ better or worse than {study.reference}: sign-flip test over {study.repeats}, "
        f"Holm's correction over the column, p < {LEVEL}. "
        f"{study.note.replace('docs/protocol.md', '[Protocol](protocol.md)')}{since} "
        f"{stand_in_note(results).replace('docs/data.md', '[Data](data.md)')}"
    )


def _numbers(results: Results) -> list[str]:
    """The numbers behind the sentences, a table for each kind."""
    study, parts = results.study, list[str]()
    table = difference_table(results)
    if table:
        text = f"Differences from {study.reference} in points, means over the {study.repeats} that both have. "
        text += power_note(results, study.quantities[0])
        parts += ["### Better and worse", filled(text), table]
    table = planned_table(results)
    if table:
        text = (
            f"{study.planned} against {study.reference}, and against the best other method of the paper in each "
            "column, in points. A planned test stands by itself; `corrected` is its p by Holm's method over the "
            "columns. The rival is chosen by its test mean, which favours it: a lead over it is safely shown, a lag "
            "is not."
        )
        parts += ["### Planned tests", filled(text), table]
    table = few_graphs_table(results)
    if table:
        text = (
            "Seeds tell how training varies, not how the test set does. By the number of its test graphs alone a "
            "ROC-AUC on other graphs of the same kind could be anywhere in this interval (Hanley and McNeil):"
        )
        parts += ["### Few test graphs", filled(text), table]
    return parts


def _deviations(results: Results, remarks: Sequence[Remark]) -> list[str]:
    """Which cells differ from the paper's by more than two standard errors, with what is known of them."""
    every = deviations(results)
    large = [deviation for deviation in every if deviation.is_large]
    above = sum(deviation.difference > 0 for deviation in large)
    first = large[:_FIRST]
    explained = sum(remark_on(cell.cell, remarks) is not None for cell in first)
    text = (
        f"{len(large)} of {len(every)} cells differ from the paper's by more than two standard errors of the "
        f"difference, {above} above and {len(large) - above} below; were both drawn from one law, about one in twenty "
        "would. The largest comes first. Remarks are written by hand, on "
        f"{'all' if explained == len(first) else explained} of the first {len(first)}; where there is none, no cause "
        "is known."
    )
    used = dict.fromkeys(remark for cell in large if (remark := remark_on(cell.cell, remarks)) is not None)
    letters = dict(zip(used, ascii_lowercase, strict=False))
    lines = [_deviation(cell, letters, remarks) for cell in large]
    notes = "\n".join(filled(f"**{letter}** {remark.text}", "- ") for remark, letter in letters.items())
    head = ["cell", "ours", "paper", "difference", "standard error", "remark"]
    return [filled(text), *([pipe_table(head, lines)] if lines else []), *([notes] if notes else [])]


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
    lines = [[row.label, *(cell_scores(results, row, column, ID_TEST) for column in columns)] for row in rows]
    text = (
        "The score of the same models on new graphs of the training law, where the dataset has such a part (id test), "
        "in %. The paper does not print it."
    )
    head = ["", *(column.label for column in columns)]
    return ["## Within the training law", filled(text), pipe_table(head, lines)]


def standalone_svg(drawing: str) -> str:
    """A drawing for a page as a file of its own, in the page's light colours."""
    style = files("outland.report").joinpath("page.css").read_text(encoding="utf-8")
    colours = dict(reversed(re.findall(r"--(\w+): (#[0-9a-f]{6})", style)))  # the light ones come first
    drawing = re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], drawing).replace("'DejaVu Sans'", "sans-serif")
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    ground = f'<rect width="100%" height="100%" fill="{colours["paper"]}"/>'
    return re.sub(r"<svg ([^>]*)>", rf"<svg {names} \1>{ground}", drawing, count=1) + "\n"


if __name__ == "__main__":
    for page in write_results_pages(Path(sys.argv[1] if len(sys.argv) > 1 else ".")):
        print(page)
