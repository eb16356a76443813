"""Tables predicted as they stream by."""

import csv
import gzip
from collections import Counter, deque
from dataclasses import replace

import numpy as np
import pytest
import torch
from filelock import FileLock

from outland.chem.counts import counts
from outland.chem.elements import elements
from outland.chem.featurizer import parse
from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.graphs import Task
from outland.models import evaluate_models, load_model
from outland.models.named_graphs import load_labelled_table
from outland.models.table_predictions import Reservoir, _batches, predict_table
from outland.tables import delimited
from tests.models.cases import SMALL, TABLE, bbbp, forest_model


def rows_of(path):
    with path.open(errors="surrogateescape", newline="") as stream:
        return list(csv.DictReader(stream))


def predicted(model, tmp_path, name="out.csv", **rest):
    report = predict_table(model, rest.pop("table", TABLE), tmp_path / name, **rest)
    return report, rows_of(tmp_path / name)


def test_rows_keep_their_order_and_bad_ones_their_place(fitted, model_folder, tmp_path):
    report, rows = predicted(load_model(model_folder), tmp_path)
    before = rows_of(TABLE)
    assert [row["smiles"] for row in rows] == [row["smiles"] for row in before]
    assert [row["name"] for row in rows] == [row["name"] for row in before]
    bad = [row for row in rows if row["outland_problem"]]
    assert (report.rows, report.bad, len(bad)) == (300, 2, 2)
    assert all(parse(row["smiles"]) is None and row["outland_probability"] == "" for row in bad)
    good = [row for row in rows if not row["outland_problem"]]
    expected = fitted.predict_proba([row["smiles"] for row in good])[:, 1]
    assert np.abs(np.array([float(row["outland_probability"]) for row in good]) - expected).max() < 1e-6
    assert [int(row["outland_class"]) for row in good] == fitted.predict([row["smiles"] for row in good]).tolist()
    assert Counter(row["outland_flag"] for row in good) == report.flags
    assert Counter(row["outland_class"] for row in good) == report.classes["label"]
    assert report.share("edge", "far") == (report.flags["edge"] + report.flags["far"]) / 298
    distances = fitted.distance([row["smiles"] for row in good])
    assert np.allclose([float(row["outland_distance"]) for row in good], distances, atol=1e-4)


def test_neither_processes_nor_the_rest_of_the_table_change_a_row(fitted, tmp_path):
    smiles, _ = bbbp()
    long = tmp_path / "long.csv"
    long.write_text("smiles\n" + "".join(f"{one}\n" for one in smiles * 3))
    _, alone = predicted(fitted.model_, tmp_path, "alone.csv", table=long, workers=1)
    _, several = predicted(fitted.model_, tmp_path, "several.csv", table=long, workers=2)
    assert alone == several
    once = {one: f"{value:.6f}" for one, value in zip(smiles, fitted.predict_proba(smiles)[:, 1], strict=True)}
    apart = [abs(float(row["outland_probability"]) - float(once[row["smiles"]])) for row in alone]
    assert max(apart) <= 1.1e-6  # a last digit may round the other way


def test_rows_of_the_training_set_are_known_again(fitted, tmp_path):
    smiles, _ = bbbp()
    assert len(fitted.model_.training_hashes) == len(set(smiles))
    report, _ = predicted(fitted.model_, tmp_path)
    assert (report.training_rows, report.rows) == (298, 300)  # two cannot be read
    table = tmp_path / "new.csv"
    table.write_text(f"smiles\nCCCCCCCl\n {smiles[0]} \naspirin\n")
    report, _ = predicted(fitted.model_, tmp_path, "new-out.csv", table=table)
    assert (report.training_rows, report.first) == (1, {"RDKit cannot read the SMILES": 3})


def test_gzip_and_bytes_that_are_not_utf8_survive(fitted, tmp_path):
    table = tmp_path / "odd.csv"
    table.write_bytes(b'name,smiles\n\xff\xfe,CCO\nb,\xff\n"a,""b""\nc",CCN\n')
    predict_table(fitted.model_, table, tmp_path / "odd.csv.gz")
    with gzip.open(tmp_path / "odd.csv.gz", "rt", errors="surrogateescape", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["name"].encode(errors="surrogateescape") == b"\xff\xfe"
    assert rows[1]["outland_problem"] == "bytes that are not UTF-8"
    assert rows[2]["name"] == 'a,"b"\nc'


def test_a_regressor_writes_numbers(tmp_path):
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles, [label * 50.0 for label in labels])
    _, rows = predicted(model.model_, tmp_path)
    said = {row["smiles"]: row["outland_prediction"] for row in rows if row["outland_prediction"]}
    assert float(said[smiles[0]]) == pytest.approx(model.predict(smiles[:1])[0], rel=1e-4)


def test_several_classes_have_a_probability_each(tmp_path):
    smiles = bbbp()[0][:60]
    model = GraphClassifier("erm", epochs=1, backbone=SMALL, domain="random").fit(smiles, [*"abc"] * 20)
    _, rows = predicted(model.model_, tmp_path)
    (row,) = [row for row in rows if row["smiles"] == smiles[0]]
    written = {name: float(row[f"outland_probability_{name}"]) for name in "abc"}
    assert [*written.values()] == pytest.approx(model.predict_proba(smiles[:1])[0], abs=2e-6)
    called = max(written, key=written.__getitem__)
    assert (row["outland_class"], float(row["outland_probability"])) == (called, written[called])


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("smiles\naspirin\nbenzene\n", "a.csv", r"none of the 2 rows of .* can be read \(RDKit cannot read"),
        ("a,b\nCCOC,CCNC\nCCCO,c1ccccc1\n", "a.csv", "which column of t.csv holds the SMILES, a or b"),
        ("a,b\n1,x\n", "a.csv", r"no column of t.csv can be read as SMILES: .* \(columns: a and b\)"),
        ("smiles,outland_class\nCCO,1\n", "a.csv", "has a column 'outland_class' already"),
        ("smiles\nCCO\n", "a.html", "must end in .csv"),
        ("smiles\nCCO\n", "t.csv", "exists: choose another --out"),
        ("smiles\n", "a.csv", "has a header and no rows"),
    ],
)
def test_a_bad_table_is_a_sentence_and_nothing_is_written(fitted, tmp_path, text, name, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(OutlandError, match=words):
        predict_table(fitted.model_, tmp_path / "t.csv", tmp_path / name, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    assert (tmp_path / "t.csv").read_text() == text


def test_what_exists_is_kept_without_force(fitted, tmp_path):
    (tmp_path / "out.csv").write_text("precious")
    with pytest.raises(OutlandError, match="or replace it with --force"):
        predicted(fitted.model_, tmp_path)
    assert (tmp_path / "out.csv").read_text() == "precious"
    assert len(predicted(fitted.model_, tmp_path, force=True)[1]) == 300


def test_two_processes_do_not_write_one_table(fitted, tmp_path):
    with FileLock(tmp_path / ".out.csv.lock"), pytest.raises(OutlandError, match="another process is writing"):
        predicted(fitted.model_, tmp_path)
    predicted(fitted.model_, tmp_path)
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_reservoir_gives_every_molecule_the_same_chance():
    counts = np.zeros(100)
    for seed in range(400):
        sample = Reservoir(10, seed)
        for start in range(0, 100, 7):
            sample.add(list(range(start, min(start + 7, 100))))
        assert len(sample.items) == 10
        counts[sample.items] += 1
    assert counts.sum() == 4000
    assert 15 < counts.min() < counts.max() < 70  # 40 each, give or take 6
    assert abs(counts[:10].mean() - counts[90:].mean()) < 8


def test_trees_are_predicted_without_atoms_and_bonds(tmp_path):
    smiles, labels = bbbp()
    graphs = replace(read_inputs(smiles).graphs, y=torch.tensor(labels).float()[:, None])
    model = forest_model(Task("binary", 1, "rocauc"), graphs)
    report, rows = predicted(model, tmp_path)
    assert (len(report.sample_graphs()), report.sample_graphs().edge_counts.sum()) == (298, 0)
    whole, same = predicted(model, tmp_path, "whole.csv", graphs=True)
    assert rows == same
    assert len(whole.sample_graphs().x) > 298 * 10
    molecules = whole.sample_graphs().x[:, 0].split(whole.sample_graphs().node_counts.tolist())
    assert len(report.sample_graphs().x) == sum(len(atoms.unique()) for atoms in molecules)  # one of each element


def test_elements_that_training_never_had_are_named_and_counted(tmp_path):
    smiles, labels = bbbp()
    graphs = replace(read_inputs(smiles).graphs, y=torch.tensor(labels).float()[:, None])
    model = forest_model(
        Task("binary", 1, "rocauc"), graphs, training_elements=elements(graphs, torch.arange(len(graphs)))
    )
    table = tmp_path / "metals.csv"
    table.write_text("smiles\nCCO\nC[Sn](C)(C)Cl\n[Ba+2].[Sn+2]\nCC[\n[2H]CO\n")
    report, rows = predicted(model, tmp_path, table=table)
    assert [row["outland_unseen_elements"] for row in rows] == ["", "Sn", "Ba Sn", "", ""]
    assert (report.bad, report.with_unseen, report.unseen) == (1, 2, {"Sn": 2, "Ba": 1})


def test_counts_are_computed_for_trees_alone(fitted, tmp_path, monkeypatch):
    smiles, labels = bbbp()
    graphs = read_inputs(smiles[:80]).graphs
    task = Task("binary", 1, "rocauc")
    trees = forest_model(task, replace(graphs, y=torch.tensor(labels[:80], dtype=torch.float)[:, None]))
    assert trees.reads_counts
    assert not fitted.model_.reads_counts
    asked = []
    # Every molecule is featurized here, those that other tests have read too.
    monkeypatch.setattr("outland.chem.smiles.map_ordered", lambda function, items, workers: map(function, items))
    monkeypatch.setattr("outland.chem.featurizer.molecule_counts", lambda molecule: asked.append(1) or counts(molecule))
    report, _ = predicted(fitted.model_, tmp_path, "network.csv", workers=1)
    assert (report.bad, len(asked)) == (2, 0)
    report, rows = predicted(trees, tmp_path, "trees.csv", workers=1)
    assert len(asked) == 298
    good = [row for row in rows if not row["outland_problem"]]
    expected = trees.probabilities(trees.predict(read_inputs([row["smiles"] for row in good]).graphs))[:, 1]
    assert np.allclose([float(row["outland_probability"]) for row in good], expected, atol=1e-6)


def test_a_labelled_table_is_read_once_and_scored_as_evaluate_does(fitted, tmp_path, monkeypatch):
    """Rows that come from the file, in all: those of the table, and the few that its columns are known by."""
    texts = TABLE.read_text().splitlines()
    table = tmp_path / "t.csv"
    table.write_text("\n".join([texts[0].replace("p_np", "label"), *texts[1:] * 3]) + "\n")
    rows, records = [], delimited.records

    def counted(path):
        for record in records(path):
            rows.append(record)
            yield record

    monkeypatch.setattr(delimited, "records", counted)
    report, _ = predicted(fitted.model_, tmp_path, table=table, smiles="smiles")
    (score,) = report.scored.scores()
    assert report.rows == 900
    assert 900 < len(rows) < 930
    (expected,) = evaluate_models([fitted.model_], load_labelled_table(fitted.model_, table)[0], "t.csv")
    assert (score.rows, score.groups, score.part) == (expected.rows, expected.groups, "t.csv") == (894, 246, "t.csv")
    ours, others = score.score.model_dump(), expected.score.model_dump()
    assert {name: round(value, 6) for name, value in ours.items()} == pytest.approx(others, abs=1e-6)


def test_labels_that_cannot_be_used_are_left_out_of_the_score(fitted, tmp_path, monkeypatch):
    table = tmp_path / "t.csv"
    table.write_text("smiles,label\nCCO,\naspirin,1\nCCN,perhaps\nc1ccccc1,1\nCCCl,0\nCCC,1.0\n")
    report, _ = predicted(fitted.model_, tmp_path, table=table)
    (score,) = report.scored.scores()
    assert (score.rows, score.groups, report.bad) == (3, 3, 1)
    table.write_text("smiles,label\nCCO,perhaps\n")
    report, _ = predicted(fitted.model_, tmp_path, "none.csv", table=table)
    with pytest.raises(OutlandError, match=r"no row of .* can be used; the first: row 1, column 'label': the label is"):
        report.scored.scores()
    monkeypatch.setattr("outland.models.scored_rows.MOST_SCORED", 2)
    report, _ = predicted(fitted.model_, tmp_path, "full.csv")
    assert report.scored is None  # it has no column of this name
    table.write_text("smiles,label\nCCO,1\nCCN,0\nCCC,1\n")
    report, _ = predicted(fitted.model_, tmp_path, "more.csv", table=table)
    assert report.scored.is_full


def test_long_rows_are_read_ahead_in_smaller_batches(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("smiles,note\n" + f"CCO,{'x' * 99_000}\n" * 200 + "CCN,y\n" * 1500)
    for workers, expected in ((1, [85, 85, 1024, 506]), (8, [85, 85, 1024, 506]), (64, [11] * 18 + [1024, 478])):
        rows = deque()
        sizes = [len(batch) for batch in _batches(table, "smiles", rows, workers)]
        assert sizes == expected
        assert max(sizes[:-2]) * 99_000 * 4 * workers < 1.1 * 2**28  # of as many as are read ahead
        assert (len(rows), rows[0]["note"][:2], rows[-1]) == (1700, "xx", {"smiles": "CCN", "note": "y"})
