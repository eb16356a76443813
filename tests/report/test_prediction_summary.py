"""What is said of predictions."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from outland.models.table_predictions import TableReport
from outland.report.prediction_summary import prediction_lines


def report(**rest) -> TableReport:
    flags = Counter(near=1000, edge=30, far=4)
    classes = {"label": Counter({"1": 34, "0": 1000})}
    return TableReport(Path("out.csv"), rows=1040, bad=6, flags=flags, classes=classes, seconds=2.4, **rest)


def test_rows_problems_classes_and_distances_are_counted(fitted):
    problems = Counter({"no SMILES": 5, "RDKit cannot read the SMILES": 1})
    first = {"no SMILES": 1003, "RDKit cannot read the SMILES": 7}
    lines = prediction_lines(fitted.model_, report(problems=problems, first=first, training_rows=12))
    no, yes = fitted.model_.training.class_counts
    assert lines == [
        "out.csv: 1,040 rows in 2 s; 6 cannot be read",
        "  5 rows: no SMILES (first: row 1,003)",
        "  1 row: RDKit cannot read the SMILES (first: row 7)",
        "called: 0 1,000, 1 34",
        f"outland_probability is of '1'; a row is called so above {yes / (no + yes):.2f} (its share in training)",
        "distance: near 1,000, edge 30, far 4 of 1,034",
        "12 of these 1,040 rows were in the model's training (or chose its epoch): its errors here flatter it.",
    ]


def test_without_distances_and_classes_nothing_is_said_of_them(fitted):
    plain = prediction_lines(replace(fitted.model_, distance=None), report())
    assert not any(line.startswith("distance") for line in plain)
    several = prediction_lines(replace(fitted.model_, classes=("a", "b", "c")), report())
    assert not any("outland_probability" in line for line in several)
