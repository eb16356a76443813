"""`outland data`."""

import json

from outland.datasets.molecules import Molbbbp
from tests.cli.bare_machine import MISSING
from tests.cli.cases import SAMPLE
from tests.conftest import SAMPLES


def test_data_prepare_and_verify(outland):
    done = outland("data", "prepare", "motif", "--domain", "base")
    assert "train 18,000" in done.stdout
    done = outland("data", "verify", "motif", "--domain", "base")
    assert done.returncode == 0
    assert done.stdout.count("as published") == 5


def test_data_show_draws_a_table(outland, tmp_path):
    done = outland("data", "show", str(SAMPLES / "bbbp.csv"), "--target", "p_np")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bbbp-scaffold.png").stat().st_size > 20000


def test_prepared_molecules_train_where_rdkit_and_raw_file_are_missing(outland, bare, tmp_path, monkeypatch):
    monkeypatch.setattr(Molbbbp, "raw", SAMPLE)
    done = outland("data", "prepare", "molbbbp", "--data", str(SAMPLES), "--out", "prepared")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "prepared").iterdir()
    assert f"prepared/{folder.name}: 298 graphs, 0.02 MiB (outland 0.1.0, numpy" in done.stdout
    words = ["train", "molbbbp", "--domain", "size", "--device", "cpu", "--method", "erm"]
    words += ["--set", "data.limit=20", "--set", "train.epochs=1", "--set", "backbone.width=8"]
    before, imported, after = bare(words, ["data", "import", "prepared"], words)
    assert before.returncode == 2
    assert "molecules need RDKit" in before.stderr
    assert f"imported {folder.name}: 298 graphs" in imported.stdout
    assert after.returncode == 0, after.stderr
    (record,) = (tmp_path / "runs").glob("*/record.json")
    data = json.loads(record.read_text())["data"]
    assert data["versions"].keys() >= {"rdkit", "scikit-image", "outland", "numpy"}
    assert data["sizes"]["train"] == 20
    roots = {name.partition(".")[0] for name in (tmp_path / "modules").read_text().split()}
    assert not roots & {*MISSING}


def test_prepared_descriptors_train_where_rdkit_is_missing(outland, bare, tmp_path, monkeypatch):
    monkeypatch.setattr(Molbbbp, "raw", SAMPLE)
    done = outland("data", "prepare", "molbbbp", "--data", str(SAMPLES), "--descriptors", "--out", "prepared")
    assert done.returncode == 0, done.stderr
    assert len([*(tmp_path / "prepared").iterdir()]) == 2  # without descriptors, and with
    words = ["train", "molbbbp", "--device", "cpu", "--method", "erm", "--set", "backbone.descriptors=true"]
    words += ["--set", "data.limit=20", "--set", "train.epochs=1", "--set", "backbone.width=8"]
    before, _, after = bare(words, ["data", "import", "prepared"], words)
    assert before.returncode == 2
    assert "`outland data prepare --out` (with `--descriptors`" in " ".join(before.stderr.split())
    assert after.returncode == 0, after.stderr
    assert [*(tmp_path / "runs").glob("*/record.json")]


def test_graphs_that_are_no_molecules_have_no_descriptors_to_prepare(outland, motif):
    done = outland("data", "prepare", "motif", "--domain", "base", "--descriptors")
    assert done.returncode == 2
    assert "the graphs of motif are no molecules" in done.stderr


def test_a_damaged_prepared_folder_is_refused(outland, tmp_path):
    (tmp_path / "motif-x").mkdir()
    (tmp_path / "motif-x" / "state.json").write_text("{}")
    done = outland("data", "import", "motif-x")
    assert done.returncode == 2
    assert "motif-x cannot be read" in done.stderr


def test_all_domains_are_prepared_unless_one_is_named(outland, tmp_path, motif):
    done = outland("data", "prepare", "motif", "--domain", "base", "--out", "one")
    assert done.returncode == 0, done.stderr
    assert [path.name.rpartition("-")[0] for path in (tmp_path / "one").iterdir()] == ["motif-base-covariate"]
    done = outland("data", "import", "one")
    assert "already there: motif-base-covariate-" in done.stdout
