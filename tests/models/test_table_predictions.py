"""Tables predicted as they stream by."""

import csv
import gzip
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import torch
from filelock import FileLock
from outland.estimators.explained import explain_table
from outland.estimators.fragments import Piece, pieces, rank_pieces
from outland.estimators.judging import accuracy, auc, judge, rmse
from outland.estimators.seen import hashes, seen_words, sorted_hashes, were_seen
from outland.estimators.streaming import Reservoir, predict_table

from outland.chem.featurizer import parse
from outland.errors import OutlandError
from outland.estimators import GraphRegressor, load_folder
from outland.estimators.inputs import read_inputs
from outland.graphs import PackedGraphs, Splits
from tests.conftest import SAMPLES
from tests.estimators.cases import SMALL, bbbp

TABLE = SAMPLES / "bbbp.csv"


def rows_of(path):
    with path.open(errors="surrogateescape", newline="") as stream:
        return list(csv.DictReader(stream))


def predicted(model, tmp_path, name="out.csv", **rest):
    report = predict_table(model, rest.pop("table", TABLE), tmp_path / name, shift=False, **rest)
    return report, rows_of(tmp_path / name)


def test_rows_keep_their_order_and_bad_ones_their_place(fitted, model_folder, tmp_path):
    report, rows = predicted(load_folder(model_folder), tmp_path)
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
    first = int.from_bytes(sha256(b"CCO").digest()[:8], "little", signed=True)
    assert hashes([" CCO\n"]).tolist() == [first]
    kept = sorted_hashes(["CCO", "CCN", "CCO"])
    assert (len(kept), kept.tolist()) == (2, sorted(kept.tolist()))
    assert were_seen(["CCN", "OCC", " CCO", "CCC"], kept) == [True, False, True, False]
    assert were_seen(["CCN"], kept[:0]) == [False]
    smiles, _ = bbbp()
    assert len(fitted.model_.seen) == len(set(smiles))
    report, _ = predicted(fitted.model_, tmp_path)
    assert (report.seen, report.rows) == (298, 300)  # two cannot be read
    table = tmp_path / "new.csv"
    table.write_text(f"smiles\nCCCCCCCl\n {smiles[0]} \naspirin\n")
    report, _ = predicted(fitted.model_, tmp_path, "new-out.csv", table=table)
    assert (report.seen, report.first) == (1, {"RDKit cannot read the SMILES": 3})
    assert seen_words(1, 3).startswith("1 of these 3 rows was in the model's training")
    assert seen_words(0, 3) == ""


def test_gzip_and_bytes_that_are_not_utf8_survive(fitted, tmp_path):
    table = tmp_path / "odd.csv"
    table.write_bytes(b'name,smiles\n\xff\xfe,CCO\nb,\xff\n"a,""b""\nc",CCN\n')
    predict_table(fitted.model_, table, tmp_path / "odd.csv.gz", shift=False)
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


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("smiles\naspirin\nbenzene\n", "a.csv", r"none of the 2 rows of .* can be read \(RDKit cannot read"),
        ("molecule\nCCO\n", "a.csv", "unknown column of t.csv 'smiles'. Valid: molecule"),
        ("smiles,outland_class\nCCO,1\n", "a.csv", "has a column 'outland_class' already"),
        ("smiles\nCCO\n", "a.parquet", "must end in .csv or .csv.gz"),
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
            sample.see(list(range(start, min(start + 7, 100))))
        assert len(sample.kept) == 10
        counts[sample.kept] += 1
    assert counts.sum() == 4000
    assert 15 < counts.min() < counts.max() < 70  # 40 each, give or take 6
    assert abs(counts[:10].mean() - counts[90:].mean()) < 8


def test_scores_and_their_intervals(fitted):
    assert auc(np.array([0.1, 0.2, 0.2, 0.9]), np.array([0, 0, 1, 1])) == 0.875
    assert auc(np.array([0.1, 0.2]), np.array([1, 1])) is None
    assert accuracy(np.array([0, 1]), np.array([0, 0])) == 0.5
    assert rmse(np.array([1.0, 3.0]), np.array([1.0, 0.0])) == pytest.approx(3 / np.sqrt(2))
    splits = judged_splits()
    single, twins = (judge([fitted.model_, fitted.model_], splits(scaffolds), "test") for scaffolds in (298, 20))
    assert (single.rows, single.groups, twins.groups) == (298, 298, 20 + 14)  # 14 have no rings
    (one, other), (wide, _) = single.models, twins.models
    assert one == other
    assert one.low < one.value < one.high
    assert (single.difference.value, single.difference.low, single.difference.high) == (0, 0, 0)
    assert wide.value == one.value
    assert wide.high - wide.low > 0
    assert judge([fitted.model_], splits(298), "test").difference is None


def judged_splits():
    """The sample, its molecules dealt to so many scaffolds."""
    smiles, labels = bbbp()
    graphs: PackedGraphs = read_inputs(smiles).graphs

    def made(scaffolds: int) -> Splits:
        extra = {"scaffold": torch.arange(len(smiles)) % scaffolds}
        own = replace(graphs, y=torch.tensor(labels).float()[:, None], extra=extra)
        return Splits(own, {"test": torch.arange(len(smiles))}, None)

    return made


def test_pieces_are_cut_where_a_synthesis_would_join_them():
    found = dict(pieces(parse("CC(=O)Nc1ccccc1")))
    assert found == {"CC=O": (0, 1, 2), "c1ccccc1": (4, 5, 6, 7, 8, 9)}
    anilide = ("CC(=O)Nc1ccccc1", (0.9, 0.8, 0.7, 0.1, *[0.2] * 6))
    ranked = rank_pieces([anilide] * 3 + [("CC(=O)Nc1ccccc1", (0.1,) * 10)] + [("CCO", (1.0,) * 3)] * 2)
    assert ranked == [Piece("CC=O", 4, 3)]  # the ring weighs one half in none of its four molecules
    assert Piece("C", 100, 90).sure > Piece("C", 3, 3).sure  # rare ones do not lead by luck


def test_explained_rows_carry_weights_and_truth(fitted):
    rows = explain_table(fitted.model_, TABLE, "smiles", "p_np", most=70)
    assert [row.place for row in rows] == list(range(1, 71))
    assert {row.problem for row in rows} == {"", "RDKit cannot read the SMILES"}
    for row in rows[:20]:
        molecule = parse(row.smiles)
        assert (len(row.atoms), len(row.bonds)) == (molecule.GetNumAtoms(), molecule.GetNumBonds())
        assert row.truth == row.cells["p_np"]
    (one,) = fitted.explain([rows[0].smiles])
    assert np.allclose(rows[0].atoms, one.node_mask[:, 0])
    assert explain_table(fitted.model_, TABLE, "smiles", most=5)[0].truth == ""  # the model does not know the column
    with pytest.raises(OutlandError, match="is 'name' its column of SMILES"):
        explain_table(fitted.model_, TABLE, "name", most=1)
