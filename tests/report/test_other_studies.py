import pytest

from outland.report.other_studies import other_studies, study_section
from outland.report.results_page import results_page
from outland.studies import STUDIES, find_study
from outland.studies.base import Measurement
from outland.studies.results import Results
from tests.report.cases import scores
from tests.studies.cases import made


def some(*labels: str):
    """Scores of the rows with these labels."""
    return lambda row, column, seed: scores(row, column, seed) if row.label in labels else None


def nothing(name: str) -> Results:
    return made(name, lambda *rest: None, seeds=None)


def test_a_study_of_which_nothing_is_there_has_a_line():
    heading, _, table = other_studies({name: nothing(name) for name in ("tu", "ablation")}, [])
    assert heading == "## Other studies"
    assert table.splitlines()[2:] == [
        "| `tu` | Six collections without a shift | 0 of 36 |",
        "| `ablation` | What each part of AIA is worth | 0 of 20 |",
    ]


@pytest.mark.parametrize(
    ("own", "labels", "shown"),
    [((), ("ERM", "AIA"), False), (("ablation",), ("ERM", "AIA"), True), ((), ("ERM", "AIA", "RDIA"), True)],
)
def test_a_section_needs_records_of_its_own_or_half_of_the_cells(own, labels, shown):
    parts = other_studies({"ablation": made("ablation", some(*labels))}, own)
    assert (len(parts) > 3) == shown
    assert f"| {4 * len(labels)} of 20 |" in parts[2]
    assert ("(#what-each-part-of-aia-is-worth)" in parts[2]) == shown


def test_a_section_has_what_is_there_and_its_comparisons():
    results = made("ablation", some("ERM", "AIA"))
    results.records = {name: runs for name, runs in results.records.items() if "motif" in name}
    title, question, table, caption = study_section(results)
    assert (title, question) == ("### What each part of AIA is worth", f"{results.study.question} On a CPU.")
    assert len(table.splitlines()) == 2 + 2
    columns = sum("motif" in column.label for column in results.columns)
    assert table.splitlines()[1].count("---:") == columns > 0
    assert "▲" in table
    assert "<br>*73.6 ± 5.2*" in table.replace("\N{NO-BREAK SPACE}", " ")
    assert " ".join(caption.split()).startswith(
        "Ours, and below it *the paper's* where it has any: mean ± standard deviation over 10 seeds, "
        "the first ones where the first table has more, best in bold, ▲ ▼ better"
    )


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("tu", "10 folds, best"),
        ("sensitivity", "10 seeds, the first"),
        ("correlation", "10 seeds (3 on cmnist-color), the"),
    ],
)
def test_a_caption_says_how_many_runs_a_cell_has(name, counts):
    caption = " ".join(study_section(made(name, scores, seeds=None))[-1].split())
    assert f"± standard deviation over {counts}" in caption


def test_rows_of_a_group_stand_below_its_name():
    _, _, table, _ = study_section(made("backbones", scores))
    first = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert first[:3] == ["*GCN*", "ERM", "M-Mixup"]
    assert len(first) == 12 + 3


def test_what_is_measured_beside_runs_is_shown_too():
    study = find_study("shift")
    results = Results(study, study.cells())
    for cell in results.cells[:2]:
        values = {quantity.name: 0.25 + 0.5 * index for index, quantity in enumerate(study.quantities)}
        results.measurements[cell.name] = {seed: Measurement(values) for seed in range(10)}
    section = study_section(results)
    assert section[2::2][:4] == [f"**{quantity.title}**" for quantity in study.quantities]
    assert section[3].splitlines()[2].startswith("| Original | 0.250")
    assert "2 of 24" in other_studies({"shift": results}, ["shift"])[2]


@pytest.mark.parametrize("name", [name for name in STUDIES if name not in ("covariate", "cost")])
def test_every_study_can_have_a_section(name):
    results = made(name, scores, seeds=2)
    for cell in results.cells:
        values = {quantity.name: 0.5 for quantity in results.study.quantities if quantity.read is None}
        results.measurements[cell.name] = {seed: Measurement(values) for seed in range(2)}
    page = results_page(made("covariate", scores, seeds=2), [], other_studies({name: results}, [name]))
    parts = ["## What differs", "## Other studies", f"\n### {results.study.title}\n", "## The same in full"]
    assert [page.count(part) for part in parts] == [1] * 4
    assert sorted(parts, key=page.index) == parts
    section = page.partition(parts[2])[2].partition("\n## ")[0]
    assert all(f"| {row.label} |" in section for row in results.rows)
