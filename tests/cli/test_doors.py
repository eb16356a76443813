"""`outland predict`, `evaluate` and `explain` on the folder of every door: train, fit, save, a method's own file."""

import csv
import json
import re
import shutil

import pytest

from outland.estimators import GraphClassifier
from outland.models import load_model
from outland.training import RunRecord
from tests.cli.cases import TINY, guide_example
from tests.conftest import SAMPLES
from tests.models.cases import SMALL, bbbp

SMALLER = ["--set", "backbone.width=8", "--set", "train.epochs=2"]
TABLE = ["bbbp.csv", "--target", "p_np", "--domain", "random", "--method", "erm"]


@pytest.fixture
def sample(tmp_path, quick_shift):
    shutil.copy(SAMPLES / "bbbp.csv", tmp_path / "bbbp.csv")


def run_folder(tmp_path):
    (record,) = tmp_path.glob("runs/*/record.json")
    return record.parent


def rows_of(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


def used(outland, folder, data, *more):
    """Predictions, scores and the page of a folder, each by its command."""
    done = outland("predict", str(folder), data, "--out", "predicted.csv", "--force", "--no-shift", *more)
    assert done.returncode == 0, done.stderr
    page = outland("explain", str(folder), data, "--out", "explained.html", "--force", "--most", "4", *more)
    assert page.returncode == 0, page.stderr
    return done.stdout, page.stdout


def evaluated(outland, folder, data, *more):
    done = outland("evaluate", str(folder), data, "--json", *more)
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert (plain["model"], plain["data"]) == (str(folder), data)
    return plain


def test_the_folder_of_a_run_on_a_benchmark(outland, motif, tmp_path, quick_shift):
    assert outland("train", "motif", "--domain", "base", "--method", "aia", *TINY).returncode == 0
    folder = run_folder(tmp_path)
    record, model = RunRecord.read(folder / "record.json"), load_model(folder)
    assert (model.kind, model.targets, model.classes) == ("graphs", ["label"], ("0", "1", "2"))
    (score,) = evaluated(outland, folder, "test")["scores"]
    assert score["score"]["value"] == pytest.approx(record.test_score, abs=1e-6)
    assert (score["rows"], score["groups"], score["metric"]) == (48, 48, "accuracy")
    assert score["score"]["low"] < score["score"]["value"] < score["score"]["high"]
    assert score["calibration"]["accuracy"] == score["score"]["value"]
    (whole,) = evaluated(outland, folder, "motif/base:test")["scores"]  # without the run's limit
    assert whole["rows"] == 3000

    told, page = used(outland, folder, "test")
    rows = rows_of(tmp_path / "predicted.csv")
    assert [row["graph"] for row in rows] == [str(number) for number in range(48)]
    right = sum(row["label"] == row["outland_class"] for row in rows)
    assert right / 48 == pytest.approx(record.test_score, abs=1e-6)
    assert re.search(r"^predicted.csv: 48 rows in \d+ s; 0 cannot be read", told, re.MULTILINE)
    assert "explained.html: 4 graphs, the first of motif/base:test; --most draws more" in page
    assert (tmp_path / "explained.html").read_text().count("<svg") >= 4
    done = outland("predict", str(folder), "id_val", "--out", "other.csv")
    assert "A classifier" in done.stdout.splitlines()[2]
    assert "Did you mean 'test'" in outland("evaluate", str(folder), "tets").stderr
    assert "reads graphs, not molecules" in outland("evaluate", str(folder), str(SAMPLES / "bbbp.csv")).stderr


def test_the_folder_of_a_run_on_a_table(outland, sample, tmp_path):
    assert outland("train", *TABLE, *SMALLER).returncode == 0
    folder = run_folder(tmp_path)
    record = RunRecord.read(folder / "record.json")
    part = evaluated(outland, folder, "test")
    assert part["scores"][0]["score"]["value"] == pytest.approx(record.test_score, abs=1e-6)
    assert part["notes"] == []  # no row of the held-out part was trained on
    table = evaluated(outland, folder, "bbbp.csv")
    assert (table["scores"][0]["rows"], table["scores"][0]["target"]) == (298, "p_np")
    sizes = record.data["sizes"]
    assert table["notes"][1].startswith("bbbp.csv: 2 rows set aside; the first: row 60")
    seen = sizes["train"] + sizes["val"]
    assert table["notes"][0].startswith(f"{seen} of these 298 rows were in the model's training")
    text = outland("evaluate", str(folder), "bbbp.csv").stdout
    assert f"{100 * table['scores'][0]['score']['value']:.2f}" in text
    assert f"{seen} of these 298 rows were in the model's training" in text

    told, page = used(outland, folder, "bbbp.csv")
    rows = [row for row in rows_of(tmp_path / "predicted.csv") if not row["outland_problem"]]
    called = sum(row["outland_class"] == row["p_np"] for row in rows) / len(rows)
    assert called == pytest.approx(table["scores"][0]["calibration"]["accuracy"])
    assert f"{seen} of these 300 rows were in the model's training" in told
    assert "explained.html: 4 molecules, the first of bbbp.csv" in page

    (tmp_path / "bbbp.csv").write_text((tmp_path / "bbbp.csv").read_text().replace("Propanolol", "Propranolol"))
    assert evaluated(outland, folder, "test") == part  # the rows that it was trained on are kept


def test_the_folder_of_a_fit(outland, sample, tmp_path):
    done = outland("fit", *TABLE, *SMALLER, "--folds", "2", "--out", "m")
    assert done.returncode == 0, done.stderr
    (score,) = evaluated(outland, "m", "bbbp.csv")["scores"]
    kept = load_model(tmp_path / "m").assessment.of("test")[0]
    assert (score["rows"], kept.rows) == (298, 298)  # those it was trained on, and each of them held out once
    assert f"{100 * kept.score.value:.2f}" in done.stdout
    told = used(outland, "m", "bbbp.csv")[0]
    assert "outland_probability is of '1'" in told
    assert "298 of these 300 rows were in the model's training" in told
    assert "predicted.csv: 30 rows" in used(outland, "m", "val")[0]


def test_the_folder_of_an_estimator(outland, sample, tmp_path):
    smiles, labels = bbbp()
    model = GraphClassifier("erm", epochs=1, backbone=SMALL).fit(smiles[:100], labels[:100])
    model.save(tmp_path / "m")
    plain = evaluated(outland, "m", "bbbp.csv", "--target", "p_np")
    assert plain["scores"][0]["calibration"]["accuracy"] == pytest.approx(model.score(smiles, labels))
    assert plain["notes"][0].startswith("100 of these 298 rows were in the model's training")
    used(outland, "m", "bbbp.csv")
    rows = [row for row in rows_of(tmp_path / "predicted.csv") if not row["outland_problem"]]
    assert [int(row["outland_class"]) for row in rows] == model.predict(smiles).tolist()


@pytest.fixture
def own_method(outland, sample, tmp_path):
    """Words of a fit by a method in a file of its own, its source, and the file that shows that it was run."""
    ran = tmp_path / "ran"
    source = guide_example() + f"\nopen({str(ran)!r}, 'w').close()\n"
    (tmp_path / "yours.py").write_text(source)
    words = [*TABLE[:-1], "yours.py:Yours", "--set", "method.strength=1", *SMALLER]
    done = outland("fit", *words, "--folds", "2", "--out", "m")
    assert done.returncode == 0, done.stderr
    return words, source, ran


def test_the_folder_of_a_method_in_a_file_of_its_own(outland, own_method, tmp_path):
    words, _, ran = own_method
    assert outland("train", *words).returncode == 0
    record = RunRecord.read(run_folder(tmp_path) / "record.json")
    (tmp_path / "yours.py").unlink()  # the folder has all that is needed
    ran.unlink()
    for folder in ("m", str(run_folder(tmp_path))):
        for command in (["predict", folder, "bbbp.csv"], ["explain", folder, "test"], ["evaluate", folder, "test"]):
            done = outland(*command)
            assert done.returncode == 2
            assert "the method Yours of" in done.stderr
            assert "method.py, and if you trust it say so with --trust-code" in done.stderr
        assert not ran.exists()  # refused before it is run
        (score,) = evaluated(outland, folder, "test", "--trust-code")["scores"]
        if folder != "m":
            assert score["score"]["value"] == pytest.approx(record.test_score, abs=1e-6)
        assert ran.exists()
        used(outland, folder, "bbbp.csv", "--trust-code")
        ran.unlink()


def test_the_source_of_a_method_is_kept_in_its_folder_and_runs_only_unchanged(outland, own_method, tmp_path):
    _, source, ran = own_method
    ran.unlink()
    rough = ["--trials", "1", "--most", "60"]
    for setting in ("steps=20", "folds=3", "samples=1000"):
        rough += ["--set", f"shift.{setting}"]
    assert "--trust-code" in outland("shift", "--model", "m", "bbbp.csv", *rough).stderr
    assert not ran.exists()
    done = outland("shift", "--model", "m", "bbbp.csv", *rough, "--trust-code")
    assert "training of m and bbbp.csv" in done.stdout
    ran.unlink()
    assert (tmp_path / "m" / "method.py").read_text() == source
    assert "loading the model runs it, if you say so" in (tmp_path / "m" / "README.md").read_text()
    (tmp_path / "m" / "method.py").write_text(source.replace("h.square()", "h.abs()"))
    done = outland("predict", "m", "bbbp.csv", "--trust-code")
    assert "m has changed since it was written: method.py is not what it was" in done.stderr
    assert not ran.exists()
