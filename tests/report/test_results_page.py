"""docs/results.md, docs/cost.md and the table of docs/ours.md are what `make results` makes of results/records/."""

import json
import lzma
import re
import shutil
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest

from outland.report.deviations import Remark
from outland.report.results_page import results_page, write_results_pages
from outland.report.score_tables import score_table
from outland.studies.quantities import TEST
from tests.report.cases import scores
from tests.studies.cases import made, write_records

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of results made anew in another folder, that of costs beside it."""
    if not (ROOT / "results").is_dir():
        pytest.skip("results/ is not part of the package's source distribution")
    root = tmp_path_factory.mktemp("root")
    shutil.copytree(ROOT / "results", root / "results")
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "ours.md", root / "docs")
    return write_results_pages(root)[0]


@pytest.fixture(scope="module")
def runs():
    """Test scores by dataset, domain, method and preset, straight from the lines of the file; and id test scores."""
    text = lzma.decompress((ROOT / "results" / "records" / "covariate.jsonl.xz").read_bytes()).decode()
    found: dict[tuple[str, ...], dict[int, float]] = {}
    for line in text.splitlines()[1:]:
        plain = json.loads(line)
        spec, record = plain["spec"], plain["record"]
        cell = tuple(spec[name] for name in ("dataset", "domain", "method", "preset"))
        selected = record["selection"][record["selected"]]
        found.setdefault(cell, {})[spec["seed"]] = 100 * selected["test"]
        found.setdefault((*cell, "id"), {})[spec["seed"]] = 100 * selected.get("id_test", 0)
    return found


def cells_of(text: str, row: str) -> list[str]:
    """The entries of a row of the first table, with plain spaces."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.replace("\N{NO-BREAK SPACE}", " ").split("|")[2:-1]]


def shown(svg: Path) -> list[str]:
    return [text.text for text in ElementTree.fromstring(svg.read_text()).iter("{http://www.w3.org/2000/svg}text")]


def test_the_page_is_that_of_the_records(page):
    for name in ("results.md", "cost.md", "ours.md"):
        made_anew, committed = page.with_name(name).read_text(), (ROOT / "docs" / name).read_text()
        assert made_anew == committed, "run `make results` and commit what it wrote"
    assert shown(page.with_name("ranks.svg")) == shown(ROOT / "docs" / "ranks.svg")


@pytest.mark.parametrize(
    ("row", "method", "column", "domain"),
    [("ERM", ("erm", ""), 3, "scaffold"), ("AIA (released)", ("aia", "released"), 4, "size")],
)
def test_means_are_those_of_twenty_seeds(page, runs, row, method, column, domain):
    values = list(runs["molbbbp", domain, *method].values())
    assert len(values) == 20
    expected = f"{statistics.mean(values):.1f} ± {statistics.pstdev(values):.1f}"
    assert cells_of(page.read_text(), row)[column].split("<br>")[0].strip("*") == expected


def test_scores_within_the_training_law_have_a_table(page, runs):
    values = list(runs["motif", "base", "erm", "", "id"].values())
    (score, *_) = cells_of(page.read_text().partition("## Within the training law")[2], "ERM")
    assert score == f"{statistics.mean(values):.1f} ± {statistics.pstdev(values):.1f}"
    assert "Within the training law" not in results_page(made("covariate", scores, seeds=2), [])


def test_the_planned_difference_is_that_of_paired_seeds(page, runs):
    aia, erm = runs["molbbbp", "size", "aia", "released"], runs["molbbbp", "size", "erm", ""]
    difference = statistics.mean(aia[seed] - erm[seed] for seed in range(20))
    assert f"| molbbbp-size | {difference:+.2f} | 20 | " in page.read_text().partition("### Planned tests")[2]
    assert f"molbbbp-size ({difference:+.1f}, p = " in " ".join(page.read_text().split())


def test_deviations_from_the_paper_are_all_there_and_sorted(page):
    text = page.read_text().partition("## What differs")[2].partition("\n## ")[0]
    lines = [line.split(" | ") for line in text.splitlines() if re.match(r"\| .+/.+ \|", line)]
    differences = [abs(float(line[3])) for line in lines]
    assert differences == sorted(differences, reverse=True)
    assert all(difference > 2 * float(line[4]) - 0.02 for difference, line in zip(differences, lines, strict=True))
    assert int(re.search(r"(\d+) of \d+ cells differ", text)[1]) == len(lines) > 0


def test_a_table_of_nothing_but_dashes_has_no_finding():
    results = made("covariate", scores, seeds=None)
    results.records = {}
    text = results_page(results, [])
    assert "0 of 126 cells are there so far, 0 of 1,254 runs." in text
    assert score_table(results, TEST).count("–<br>") == 126
    assert "What it says" not in text
    assert "ranks.svg" not in text
    assert "0 of 0 cells differ" in text


def test_rows_since_the_paper_are_shown_once_there_are_runs_of_them():
    results = made("covariate", scores, seeds=2, newer=True)
    del results.records["since the paper PrunE/motif-base"]  # one cell of several
    results.records = {name: runs for name, runs in results.records.items() if "LECI" not in name}
    table = score_table(results.with_begun_rows(), TEST)
    rows = [line.split("|")[1].strip() for line in table.splitlines()]
    assert rows[-7:] == ["*since the paper*", "PrunE", "ERM + unit readout", "iMoLD", "GALA", "*ours*", "Evidence"]
    assert len(rows) == 2 + 18 + 2 + 5
    assert cells_of(table, "PrunE")[:2] == ["–", "60.0 ± 0.0 (2 of 10)"]
    assert cells_of(table, "iMoLD")[2] == "60.0 ± 0.0 (2 of 3)"


def test_pages_of_records_of_several_studies(tmp_path):
    def some(row, column, seed):
        if row.label == "Evidence":
            return 0.8 + 0.001 * seed if column.label.startswith("motif") else None
        return None if row.group else scores(row, column, seed)

    (tmp_path / "results").mkdir()
    for name in ("remarks.toml", "halves.json", "norm-statistics.json"):
        shutil.copy(ROOT / "results" / name, tmp_path / "results")
    write_records(tmp_path / "results/records/covariate.jsonl.xz", made("covariate", some, seeds=None, newer=True))
    left_out = ("w/o gate", "w/o layer", "w/o thinning")  # "w/o walks" is Evidence itself on molecules
    parts = made("ours", lambda row, column, seed: 0.7 if row.label in left_out else None, seeds=None)
    write_records(tmp_path / "results/records/ours.jsonl.xz", parts)
    page, cost = (path.read_text() for path in write_results_pages(tmp_path))
    assert "All 126 cells are there, 1,254 runs. Of methods since the paper there are Evidence (20 runs)." in page
    assert cells_of(page, "Evidence") == ["**80.5 ± 0.3** ▲", "**80.5 ± 0.3** ▲", *["–"] * 5]
    assert "**Better than ERM** in 8 of 121 comparisons (differences in points" in page
    assert "are Evidence (+20.0) and AIA (released) (+5.0) on motif-base;" in " ".join(page.split())
    ours = page.partition("### What each part of Evidence is worth")[2].partition("\n## ")[0]
    assert cells_of(ours, "ERM")[0] == "60.4 ± 0.3 ▼<br>*68.7 ± 4.2*"  # its own file has none: these runs are shared
    assert cells_of(ours, "w/o gate") == ["70.0 ± 0.0 ▼", "70.0 ± 0.0 ▼", "**70.0 ± 0.0**"]
    assert cells_of(ours, "Evidence") == ["**80.5 ± 0.3**", "**80.5 ± 0.3**", "–"]
    assert "All 126 cells are there, 1,134 runs." in cost


def test_the_first_remark_on_a_cell_counts():
    remarks = [Remark(("ERM/motif-*",), "The first."), Remark(("*/motif-base",), "The second.")]
    text = results_page(made("covariate", scores, seeds=10), [*remarks, Remark(("*/cmnist-color",), "The third.")])
    assert re.search(r"\| ERM/motif-base \|.* c \|", text)
    assert re.search(r"\| IRM/motif-base \|.* b \|", text)
    assert "Remarks are written by hand, on all of the first 10; where" in " ".join(text.split())
    some = results_page(made("covariate", scores, seeds=10), [Remark(("ERM/cmnist-color",), "The only one.")])
    assert "Remarks are written by hand, on 1 of the first 10; where" in " ".join(some.split())
    assert "- **a** The third.\n- **b** The second.\n- **c** The first." in text
