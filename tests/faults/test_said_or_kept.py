"""What a person has in a table or a graph is kept or named: odd bytes and cells, formulas, numbers without end."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from outland.errors import CannotWrite, OutlandError
from outland.estimators import GraphClassifier
from outland.graphs import PackedGraphs
from outland.models import load_model
from outland.models.explained_rows import explain_table
from outland.models.predicted_rows import NOT_FINITE, predict_rows
from outland.models.table_predictions import predict_table
from outland.report.drawing import _new_figure, _save_figure
from outland.report.explain_page import explain_page
from outland.storage.files import write_bytes, write_text
from outland.studies.run_store import RunStore
from outland.tables.data_list import validate_data_list
from outland.tables.reading import column_names, read_rows
from tests.faults.harness import bounded
from tests.faults.test_strangers import finished, tiny  # noqa: F401

pytestmark = pytest.mark.faults
SMALL = {"domain": "random", "validation": 0.4, "epochs": 1, "backbone": {"width": 8, "layers": 2}}


def ring(nodes: int, value: float = 1.0) -> Data:
    """A ring with one real feature."""
    index = torch.arange(nodes)
    edges = torch.stack([index, index.roll(1)])
    edges = torch.cat([edges, edges.flip(0)], 1)
    return Data(x=torch.full((nodes, 1), value), edge_index=edges, y=torch.zeros(1, 1))


def test_numbers_without_end_are_a_problem_and_never_near(tally):
    graphs = [ring(3 + number % 4, 0.25 + number % 2) for number in range(24)]
    model = GraphClassifier("erm", **SMALL).fit(graphs, [number % 2 for number in range(24)]).model_
    rows = predict_rows(model, PackedGraphs.from_data_list([ring(4, value) for value in (3e38, -3e38, 0.25)]))
    assert [row.get("outland_problem") for row in rows] == [NOT_FINITE, NOT_FINITE, None]
    assert [len(row) for row in rows[:2]] == [1, 1]  # no probability, no flag
    tally("inputs", "numbers that are none", 2)


def test_graphs_that_cannot_be_used_are_named(tally):
    categories = ring(3)
    categories.x = torch.tensor([[0], [-2], [1]])
    wrong = {
        "category -2 is outside the vocabulary": [categories],
        "graph 1 has no nodes": [ring(3), Data(x=torch.zeros(0, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))],
        "graph 0 has an edge to node -1": [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [-1]]))],
    }
    for sentence, graphs in wrong.items():
        with pytest.raises(OutlandError, match=sentence), bounded():
            validate_data_list(graphs, with_environment=False)
    tally("inputs", "graphs that cannot be used", len(wrong))


def test_bytes_that_are_not_text_are_shown(tiny, tmp_path, tally):  # noqa: F811
    path, page = tmp_path / "t.csv", tmp_path / "page.html"
    path.write_bytes(b"smiles,note\nCCO,caf\xe9\nCC\xff,\x1b[31m\nCCN,[/b]<script>\n")
    model = load_model(tiny)
    explained = explain_table(model, path, "smiles")
    assert [bool(row.problem) for row in explained.rows] == [False, True, False]
    write_text(page, explain_page(model, explained, "t\udcff.csv"))
    shown = page.read_bytes().decode("utf-8")
    assert "caf" in shown
    assert "<script>" not in shown.partition("t.csv")[2].partition("</table>")[0]
    assert "\x1b" not in shown
    tally("inputs", "bytes that are not text", 3)


def test_cells_and_columns_are_kept_or_named(tiny, tmp_path, tally):  # noqa: F811
    path, out, model = tmp_path / "t.csv", tmp_path / "out.csv", load_model(tiny)
    path.write_text("smiles,,y\nCCO,kept,1\nCCN,a,0,too,many\nCCC,b\n")
    assert predict_table(model, path, out).bad == 1
    rows = list(csv.DictReader(out.open(newline="")))
    assert [row["column 2"] for row in rows] == ["kept", "a", "b"]
    assert "more cells than columns (surplus: 'too, many')" in rows[1]["outland_problem"]
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet cannot be tested")
    import pyarrow.parquet as parquet

    table = pyarrow.table([["CCO"], ["first"], ["second"]], names=["smiles", "y", "y"])
    parquet.write_table(table, tmp_path / "two.parquet")
    with pytest.raises(OutlandError, match="two columns called 'y': rename one"):
        column_names(tmp_path / "two.parquet")
    tally("inputs", "cells that have no column", 3)


def test_formulas_can_be_made_safe(tiny, tmp_path, tally):  # noqa: F811
    """As they are by default, since a table is data; with an apostrophe where it is asked for."""
    formulas = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(1)", "\t=1", "\r=1", "=HYPERLINK(0)"]
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["smiles", "=note"], *(["CCO", cell] for cell in formulas), ["CCO", "-1.5"]])
    for safe in (False, True):
        with bounded():
            predict_table(load_model(tiny), path, out, safe=safe, force=True)
        with out.open(newline="") as stream:
            names, *cells = ((row[0], row[1]) for row in csv.reader(stream))
        prefix = "'" if safe else ""
        assert names[1] == f"{prefix}=note"
        assert [cell for _, cell in cells] == [*(f"{prefix}{formula}" for formula in formulas), "-1.5"]
    assert len(list(read_rows(out))) == 8
    tally("inputs", "formulas", len(formulas))


def test_pictures_and_pages_are_whole_or_absent(small_disk, tmp_path, tally):
    """On a full disk what was there stays; a device or a pipe is not replaced."""
    disk = small_disk(8)
    figure, axes = _new_figure(1, 1, (2, 2))
    axes[0, 0].plot([0, 1])
    (disk / "old.png").write_bytes(b"old")
    for name in ("old.png", "new.png"):
        with pytest.raises(CannotWrite, match="No space left on device"), bounded():
            _save_figure(figure, disk / name, 300)
    assert {path.name: path.read_bytes() for path in disk.iterdir()} == {"old.png": b"old"}
    import os

    os.mkfifo(tmp_path / "pipe.png")
    for place in (tmp_path / "pipe.png", tmp_path, Path("/dev/full")):
        before = place.lstat()
        with pytest.raises(CannotWrite, match="it is not a regular file"), bounded():
            write_bytes(place, b"new")
        assert (place.lstat().st_ino, place.lstat().st_mode) == (before.st_ino, before.st_mode)
    with pytest.raises(CannotWrite, match="File name too long"), bounded():
        _save_figure(figure, tmp_path / f"{'a' * 250}.png", 50)
    tally("faults", "full disks", 2)
    tally("inputs", "places that cannot be written to", 4)


def test_what_strangers_write_is_no_markup_and_no_command(finished, tmp_path, capsys, monkeypatch, tally):  # noqa: F811
    from outland.cli.tune import _show
    from outland.progress import screen

    study, cells, out, slug = finished
    folder = Path(shutil.copytree(out, tmp_path / "study"))
    (folder / "runs" / slug / "record.json").unlink()
    (folder / "runs" / slug / "failure.json").write_text(json.dumps({"error": "\x1b]0;owned\x07[/b] failed"}))
    failure = RunStore(study, folder).failure(cells[0], cells[0].specs[0])
    assert failure == "?]0;owned?[/b] failed"
    trial = {"number": 1, "state": "complete", "value": 1.0, "params": {"lr": "[/b]"}, "epochs": 1}
    _show({"space": {"lr": [1]}, "trials": [trial], "budget": 1, "best": trial}, tmp_path)
    screen().print("[/b] a: [red]")
    trial["params"]["lr"] = "\x1b]0;owned\x07"
    _show({"space": {"lr": [1]}, "trials": [trial], "budget": 1, "best": trial}, tmp_path)
    (tmp_path / "mine.toml").write_text(
        'datasets = ["[/b]"]\nabout = "[/b]"\n[common.train]\nepochs = { value = 1, source = "[/b]" }\n'
    )
    monkeypatch.setattr("sys.argv", ["outland", "list", "recipes", str(tmp_path / "mine.toml")])
    from outland.cli import main

    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    printed = capsys.readouterr()
    assert len(re.findall(re.escape("[/b]"), printed.out)) >= 3
    assert "owned" in printed.out
    assert not {"\x1b", "\x07"} & set(printed.out + printed.err)
    tally("inputs", "markup and terminal commands", 5)
