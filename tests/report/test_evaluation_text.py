"""The scores of a model on labelled graphs."""

from dataclasses import replace

import torch
from rich.console import Console

from outland.estimators import GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.models.summary import CalibrationCheck, Interval, PartScore
from outland.report.evaluation_text import evaluation_notes, evaluation_table
from outland.tables.duplicates import text_hash
from tests.models.cases import SMALL, bbbp


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


def test_notes_on_few_rows_and_on_rows_of_the_training(fitted):
    texts = [bbbp()[0][0], "CCCCCCCl"]
    graphs = read_inputs(texts).graphs
    hashes = torch.tensor([text_hash(text) for text in texts])
    few = part_score(score=Interval(value=0.5), rows=2, rare=1)
    assert evaluation_notes(
        fitted.model_, replace(graphs, extra={"hash": hashes}), [few, part_score(score=few.score)]
    ) == [
        "y: the rows are too few to judge (2 rows).",
        "1 of these 2 rows was in the model's training (or chose its epoch): its errors here flatter it.",
    ]
    assert evaluation_notes(fitted.model_, graphs, [part_score(score=few.score)]) == []
