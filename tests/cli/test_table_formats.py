"""Tables of any format and through pipes, questions about labels, and scores of tables that have them."""

import csv
import io
import json
import shutil
import sys
import uuid

import pytest

from outland.tables.reading import read_rows
from tests.conftest import SAMPLES
from tests.tables.test_streams import Input


@pytest.fixture
def sample(tmp_path, monkeypatch, quick_shift):
    monkeypatch.chdir(tmp_path)
    rows = list(read_rows(SAMPLES / "bbbp.csv"))[:60]
    with (tmp_path / "few.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["Structure", "note", "label"])
        writer.writerows([row["smiles"], "=1+1", row["p_np"]] for row in rows)
    return tmp_path / "few.csv"


def test_a_table_goes_from_format_to_format(outland, sample, model_folder, tmp_path):
    done = outland("predict", str(model_folder), "few.csv", "--no-shift", "--out", "few.sdf")
    assert done.returncode == 0, done.stderr
    assert "few.sdf: 60 rows" in done.stdout
    assert "labels of label: ROC-AUC " in done.stdout
    first = list(read_rows(tmp_path / "few.sdf"))
    assert [row["label"] for row in first] == [row["label"] for row in read_rows(sample)]
    with (tmp_path / "two.smi").open("w") as stream:
        stream.writelines(f"{row['smiles'] or 'none'} m{number}\n" for number, row in enumerate(first))
    done = outland("predict", str(model_folder), "two.smi", "--no-shift", "--out", "two.parquet")
    assert done.returncode == 0, done.stderr
    again = list(read_rows(tmp_path / "two.parquet"))
    assert [row["name"] for row in again] == [f"m{number}" for number in range(60)]
    plain = [pair for pair in zip(first, again, strict=True) if pair[0]["smiles"] and "@" not in pair[0]["smiles"]]
    assert len(plain) > 30  # the tag of a chiral atom follows the order of atoms in the SMILES
    for before, after in plain:
        assert float(after["outland_probability"]) == pytest.approx(float(before["outland_probability"]), abs=1e-5)


def test_names_that_are_uuids_are_copied(outland, model_folder, tmp_path, monkeypatch):
    import pyarrow
    import pyarrow.parquet

    monkeypatch.chdir(tmp_path)
    names = [uuid.UUID(int=number) for number in (1, 2)]
    stored = pyarrow.array([name.bytes for name in names], pyarrow.binary(16))
    column = pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), stored)
    pyarrow.parquet.write_table(pyarrow.table({"smiles": ["CCO", "CCN"], "name": column}), "t.parquet")
    for out in ("out.csv", "out.parquet"):
        done = outland("predict", str(model_folder), "t.parquet", "--no-shift", "--out", out)
        assert done.returncode == 0, done.stderr
        assert [row["name"] for row in read_rows(tmp_path / out)] == [str(name) for name in names]


def test_standard_input_and_output(outland, sample, model_folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Input(sample.read_bytes()))
    done = outland("predict", str(model_folder), "-", "--no-shift", "--safe-csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 60
    assert {row["note"] for row in rows} == {"'=1+1"}
    assert "60 rows" in done.stderr


def test_scores_by_flag(outland, sample, model_folder):
    done = outland("evaluate", str(model_folder), "few.csv")
    assert done.returncode == 0, done.stderr
    assert "near" in done.stdout
    plain = json.loads(outland("evaluate", str(model_folder), "few.csv", "--json").stdout)
    assert sum(score["rows"] for score in plain["flags"]) == plain["scores"][0]["rows"] > 50
    assert {score["part"] for score in plain["flags"]} <= {"near", "edge", "far"}


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["1", "active", "TRUE", "0", "no", "inactive"], "Merge them with --merge-labels"),
        (["1.5", "2.5", ">10", "3.25", "4", "<1"], "2 labels of 6 in 'y' are limits, such as '>10'"),
    ],
)
def test_labels_are_asked_about(outland, tmp_path, labels, sentence):
    rows = "".join(f"{'C' * (n + 1)}O,{label}\n" for n, label in enumerate(labels))
    (tmp_path / "t.csv").write_text("mol,y\n" + rows)
    done = outland("fit", "t.csv", "--target", "y")
    assert done.returncode == 2
    assert sentence in done.stderr
    answer = ["--merge-labels"] if "merge" in sentence else ["--censored", "value"]
    done = outland("data", "prepare", "t.csv", "--target", "y", "--domain", "random", *answer)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 rows are usable" in done.stdout
    done = outland("data", "prepare", "t.csv", "--target", "y", "--censored", "maybe")
    assert done.returncode == 2
    assert "ask, drop, value" in done.stderr


def test_a_list_of_rows_set_aside_leaves_other_files_alone(outland, tmp_path):
    shutil.copy(SAMPLES / "bbbp.csv", tmp_path / "bbbp.csv")
    (tmp_path / "bbbp-quarantine.csv").write_text("precious")
    done = outland("data", "prepare", "bbbp.csv", "--target", "p_np")
    assert "rows set aside: bbbp-quarantine-2.csv" in done.stdout
    assert (tmp_path / "bbbp-quarantine.csv").read_text() == "precious"
