"""Scores and predictions on the terminal."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from outland.estimators import GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.models.conformal import Conformal
from outland.models.summary import CalibrationCheck, Interval, PartScore
from outland.models.table_predictions import TableReport
from outland.report.summaries import (
    evaluation_notes,
    evaluation_table,
    flag_table,
    known_rows_notes,
    prediction_lines,
    print_record,
    problem_lines,
    score_sentence,
)
from outland.tables.duplicates import text_hash
from outland.training import RunSpec, run
from tests.models.cases import SMALL, bbbp


def test_every_rule_has_a_row_and_the_selected_one_a_star(motif, cache, tmp_path, capsys):
    spec = RunSpec.from_words("motif", "erm", ["data.limit=24", "backbone.width=8", "train.epochs=2"])
    record = run(spec, tmp_path, device="cpu", cache=cache)
    capsys.readouterr()
    print_record(record, Path("runs/here"))
    text = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    assert [row[0].removesuffix(" *") for row in rows] == list(record.selection)
    (selected,) = [row for row in rows if row[0].endswith(" *")]
    scores = record.selection[record.selected]
    assert selected[1:] == [
        str(scores["epoch"]),
        *(f"{100 * scores[part]:.2f}" for part in ("id_val", "id_test", "val", "test")),
    ]
    assert f"* the saved model; {record.parameters['total']:,} parameters" in text
    assert "accuracy, in %" in text
    assert text.splitlines()[-1] == "record: runs/here/record.json"


def report(**rest) -> TableReport:
    flags = Counter(near=1000, edge=30, far=4)
    classes = {"label": Counter({"1": 34, "0": 1000})}
    return TableReport(Path("out.csv"), rows=1040, bad=6, flags=flags, classes=classes, seconds=2.4, **rest)


def test_rows_problems_classes_and_distances_are_counted(fitted):
    problems = Counter({"no SMILES": 5, "RDKit cannot read the SMILES": 1})
    first = {"no SMILES": 1003, "RDKit cannot read the SMILES": 7}
    lines = prediction_lines(fitted.model_, report(problems=problems, first=first, training_rows=12))
    assert lines == [
        "out.csv: 1,040 rows in 2 s; 6 cannot be read",
        "  5 rows: no SMILES (first: row 1,003)",
        "  1 row: RDKit cannot read the SMILES (first: row 7)",
        "called: 0 1,000, 1 34",
        "outland_probability is of '1'; a row is called so above one half",
        "flags: near 1,000, edge 30, far 4 of 1,034",
        "12 of these 1,040 rows were in the model's training (or chose its epoch): its errors here flatter it.",
    ]


def test_without_distances_and_classes_nothing_is_said_of_them(fitted):
    plain = prediction_lines(replace(fitted.model_, distance=None), report())
    assert not any(line.startswith("distance") for line in plain)
    several = prediction_lines(replace(fitted.model_, classes=("a", "b", "c")), report())
    assert not any("outland_probability" in line for line in several)


def cells(table) -> list[list[str]]:
    screen = Console(width=200)
    with screen.capture() as capture:
        screen.print(table)
    rows = [[cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]] for line in capture.get().splitlines()]
    return [row for row in rows if row]


def part_score(**values) -> PartScore:
    start = {"part": "t.csv", "target": "y", "metric": "rocauc", "rows": 1200, "groups": 50, "rare": 300}
    return PartScore(**{**start, **values})


def test_a_row_for_each_target(fitted):
    check = CalibrationCheck(mean_probability=0.25, observed_rate=0.5, accuracy=0.7)
    known = part_score(score=Interval(value=0.8, low=0.75, high=0.85), calibration=check)
    unknown = part_score(score=Interval(value=None), target="z", rows=0, rare=0)
    table = evaluation_table(fitted.model_, [known, unknown], "t.csv")
    assert table.title == "aia on t.csv"
    assert cells(table) == [
        ["target", "rows", "ROC-AUC, in %", "95% interval", "mean probability", "observed"],
        ["y", "1,200", "80.00", "75.00 to 85.00", "25.0%", "50.0%"],
        ["z", "0", "–", "–", "–", "–"],
    ]


def test_numbers_have_the_error_of_the_mean_beside_them():
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles[:60], labels[:60]).model_
    score = part_score(score=Interval(value=0.5), metric="rmse", rare=None, mean_error=0.75)
    assert cells(evaluation_table(model, [score], "t.csv")) == [
        ["target", "rows", "root mean squared error", "95% interval", "RMSE of the training mean"],
        ["y", "1,200", "0.500", "–", "0.750"],
    ]


def test_rows_without_a_finite_prediction_are_mentioned(fitted):
    score, words = part_score(score=Interval(value=0.8), not_finite=3), "3 more rows left out"
    assert evaluation_notes([score]) == [f"y: {words}, whose predictions are not finite."]
    assert score_sentence(score).endswith(f"on 1,200 rows; {words}, whose predictions are not finite")
    none = score.model_copy(update={"score": Interval(value=None), "rows": 0})
    assert score_sentence(none).startswith(f"labels of y: 0 rows, too few to score; {words}")


def test_a_class_too_rare_for_sets_is_named(fitted):
    def lines(rows: tuple[int, int], coverage: float) -> list[str]:
        y = np.repeat([0.0, 1.0], rows)[:, None]
        conformal = Conformal.of_classes(np.full((len(y), 2), 0.5), y, fitted.model_.task, None)
        return prediction_lines(replace(fitted.model_, conformal=conformal), report(), coverage)

    assert "holds the class in 90% of rows" in lines((9, 200), 0.9)[-1]
    line = "too few rows for that are of 0, which every set holds"
    assert lines((9, 200), 0.95)[-1] == line
    assert lines((8, 200), 0.9)[-1] == line


def test_reasons_beyond_the_third_are_counted():
    first = dict.fromkeys("abcde", 1)
    assert problem_lines(Counter(a=5, b=4, c=3), first)[-1] == "  3 rows: c (first: row 1)"
    assert problem_lines(Counter(a=5, b=4, c=3, d=2, e=2), first)[3:] == ["  4 rows for 2 other reasons"]
    assert problem_lines(Counter(a=5, b=4, c=3, d=1), first)[3:] == ["  1 row for 1 other reason"]


def test_several_classes_stand_beside_the_commonest(fitted):
    score = part_score(
        score=Interval(value=0.8),
        metric="accuracy",
        rare=None,
        called_right={"a": [3, 4], "b": [1, 9]},
    )
    rows = cells(evaluation_table(replace(fitted.model_, classes=("a", "b", "c")), [score], "t.csv"))
    assert (rows[0][-1], rows[1][-1]) == ("commonest class", "69.23")
    assert evaluation_notes([score]) == ["Called right by class: a 3 of 4, b 1 of 9."]


def test_few_rows_are_said_to_be_few(fitted):
    few = part_score(score=Interval(value=0.8, low=0.7, high=0.9), rows=7, rare=2, part="far")
    assert score_sentence(few).endswith("on 7 rows; the rows are too few to judge (7 rows)")
    assert cells(flag_table(fitted.model_, [few]))[1] == ["far", "7", "too few to judge (7 rows)", "–"]


def test_notes_on_few_rows_and_on_rows_of_the_training(fitted):
    texts = [bbbp()[0][0], "CCCCCCCl"]
    graphs = read_inputs(texts).graphs
    hashes = torch.tensor([text_hash(text) for text in texts])
    few = part_score(score=Interval(value=0.5), rows=2, rare=1)
    assert evaluation_notes([few, part_score(score=few.score)]) == ["y: the rows are too few to judge (2 rows)."]
    assert evaluation_notes([part_score(score=few.score)]) == []
    assert known_rows_notes(fitted.model_, replace(graphs, extra={"hash": hashes})) == [
        "1 of these 2 rows was in the model's training (or chose its epoch): its errors here flatter it.",
    ]
    assert known_rows_notes(fitted.model_, replace(graphs, extra={"hash": hashes + 1})) == []
    assert known_rows_notes(fitted.model_, graphs) == []
