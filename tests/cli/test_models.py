"""`outland fit`, `predict` and `explain`, as a person meets them."""

import csv
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from outland.estimators.judging import judge
from outland.report.fit_text import quality_sentence
from sklearn.base import clone

from outland.cli import molecules
from outland.estimators import GraphClassifier, GraphRegressor, streaming, tables
from outland.estimators.fitting import Plan
from outland.estimators.inputs import read_inputs
from outland.graphs import Splits
from outland.shift import ShiftSettings
from tests.conftest import SAMPLES
from tests.estimators.cases import SMALL, bbbp
from tests.test_cli import outland  # noqa: F401 (a fixture)

SMALLER = ["--epochs", "1", "--set", "backbone.width=16", "--set", "backbone.layers=3"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return GraphClassifier("erm", epochs=1, backbone=SMALL).fit(*bbbp()).save(tmp_path_factory.mktemp("m") / "model")


@pytest.fixture
def sample(tmp_path, monkeypatch):
    for room in (streaming, tables):
        monkeypatch.setattr(room, "QUICK_SHIFT", ShiftSettings(trials=1, most=60, folds=3, steps=20))
    return shutil.copy(SAMPLES / "bbbp.csv", tmp_path / "bbbp.csv")


def about(folder):
    return json.loads((folder / "state.json").read_text())["values"]["about"]


def test_a_table_becomes_a_model_a_table_and_a_page(outland, sample, tmp_path):  # noqa: F811
    done = outland("fit", "bbbp.csv", "--target", "p_np", *SMALLER)
    assert done.returncode == 0, done.stderr
    told = done.stdout
    assert "298 of 300 rows are usable; 2 set aside" in told
    assert re.search(r"\d+ scaffolds; from \d+ to \d+ atoms", told)
    assert "of 298 labels are 1" in told
    assert "validation" in told
    assert "held out" in told
    assert "The held-out molecules are too few to judge (2 rows of one class): at least 10" in told
    assert "Against ERM" not in told
    assert "Took" in told
    assert "outland predict bbbp-p_np-model NEW.csv" in told
    with (tmp_path / "bbbp-p_np-model-set-aside.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 2
    card = (tmp_path / "bbbp-p_np-model" / "README.md").read_text()
    assert "| held out | ROC-AUC | too few to judge (2 rows of one class) | – | – |" in card
    assert "SHA-256" in card

    done = outland("predict", "bbbp-p_np-model", "bbbp.csv", "--no-shift")
    assert done.returncode == 0, done.stderr
    assert "bbbp-predicted.csv: 300 rows" in done.stdout
    assert "  2 rows: RDKit cannot read the SMILES (first: row 6" in done.stdout
    assert "of the rows are unusual, that is edge or far" in done.stdout.splitlines()[-1]
    assert "its own held-out molecules were too few to judge (2 rows of one class)" in done.stdout.splitlines()[-1]
    assert "268 of these 300 rows were in the model's training (or chose its epoch)" in done.stdout
    done = outland("explain", "bbbp-p_np-model", "bbbp.csv", "--most", "30")
    assert done.returncode == 0, done.stderr
    assert "bbbp-explained.html: 30 molecules, the first of bbbp.csv" in done.stdout
    assert "the stable mask that aia has learned" in done.stdout
    assert (tmp_path / "bbbp-explained.html").read_text().count("<svg") > 30

    for words in (
        ("fit", "bbbp.csv", "--target", "p_np"),
        ("predict", "bbbp-p_np-model", "bbbp.csv"),
        ("explain", "bbbp-p_np-model", "bbbp.csv"),
    ):
        again = outland(*words)
        assert (again.returncode, "exists" in again.stderr, "--force" in again.stderr) == (2, True, True)


def test_a_fit_that_can_be_judged_says_how_good_it_is(outland, sample, tmp_path):  # noqa: F811
    done = outland("fit", "bbbp.csv", "--target", "p_np", "--domain", "random", "--out", "m", *SMALLER)
    assert done.returncode == 0, done.stderr
    told = done.stdout
    assert "drawn at random and not seen, it puts a '1' above a '0' in" in told
    word = re.search(r"On the held-out rows it said \d+% on average where 53% are '1', and called \d+% right.*\.", told)
    assert word is not None
    assert word.group() in (tmp_path / "m" / "README.md").read_text()
    assert "Against ERM, plain training:" in told


@pytest.mark.parametrize("words", [["--no-balance", *SMALLER], ["--method", "cal", "--set", "train.batch_size=50"]])
def test_a_clone_of_what_fit_saved_is_trained_alike(words, outland, sample, tmp_path, monkeypatch):  # noqa: F811
    plans = []
    monkeypatch.setattr("outland.estimators.fitting.VISITS", 200)
    fit = tables.fit_splits
    monkeypatch.setattr(tables, "fit_splits", lambda *given, **more: plans.append(given[2]) or fit(*given, **more))
    done = outland("fit", "bbbp.csv", "--target", "p_np", "--no-compare", "--out", "m", "--seed", "4", *words)
    assert done.returncode == 0, done.stderr
    copy = clone(GraphClassifier.load(tmp_path / "m"))
    changes = {"method": copy.settings, "backbone": copy.backbone, "train": copy.train}
    assert [Plan.make(copy.method, copy.epochs, copy._balance(), changes)] == plans
    assert (copy.random_state, copy._shift) == (4, "scaffold")


def test_a_fit_of_numbers_speaks_of_numbers(outland, sample, tmp_path):  # noqa: F811
    shutil.copy(SAMPLES / "esol.csv", tmp_path / "esol.csv")
    target = "measured log solubility in mols per litre"
    done = outland("fit", "esol.csv", "--target", target, "--method", "erm", *SMALLER)
    assert done.returncode == 0, done.stderr
    folder = "esol-measured-log-solubility-in-mols-per-litre-model"
    after = done.stdout.split("Next:\n")[1].splitlines()
    assert f"outland predict {folder} NEW.csv" in after[0]
    assert "# a prediction and a distance" in after[0]
    assert len({line.index("#") for line in after}) == 1
    (line,) = [line for line in done.stderr.splitlines() if "epoch 0" in line]
    (value,) = re.fullmatch(r"erm: epoch 0: val (\d+\.\d{3})", line).groups()
    score = about(tmp_path / folder)["scores"][0]["value"]
    assert float(value) == pytest.approx(score, abs=6e-4)  # in the unit of the table, for there is one epoch
    assert clone(GraphRegressor.load(tmp_path / folder)).epochs == 1


def test_the_mean_is_judged_on_the_held_out_rows(tmp_path):
    smiles, y = bbbp()[0][:60], [float(place // 40) for place in range(60)]
    model = GraphRegressor("erm", epochs=1, backbone=SMALL, shift="random").fit(smiles[:40], [0.0, 1.0] * 20)
    graphs = replace(read_inputs(smiles).graphs, y=torch.tensor(y)[:, None])
    found = judge([model.model_], Splits(graphs, {"test": torch.arange(40, 60)}, None), "test")
    assert found.mean_error == pytest.approx(1 - model.model_.scale[0])  # all of them are 1
    told = quality_sentence(SimpleNamespace(model=model.model_), found)
    assert told.endswith(f"always saying the training mean is off by {found.mean_error:.3f}.")


def test_a_place_that_cannot_hold_a_model_is_refused_before_training(outland, sample, tmp_path, monkeypatch):  # noqa: F811
    def train(*_, **__):
        raise AssertionError("it trained")

    monkeypatch.setattr(tables, "fit_splits", train)
    (tmp_path / "file").write_text("")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_text("cat")
    for out, sentence in (
        ("file/model", "cannot write"),
        ("photos", "is not a model folder, and will not be replaced by one"),
        ("a" * 300, "cannot write"),
    ):
        done = outland("fit", "bbbp.csv", "--target", "p_np", "--force", "--out", out)
        assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
        assert "usable" not in done.stdout  # not even the table was read


def test_prediction_ends_with_the_shift_and_advice(outland, sample, model):  # noqa: F811
    done = outland("predict", str(model), "bbbp.csv", "--out", "new/out.csv")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.match(
        r"(Little is new here|Trust it|Do not trust it).*: \d+% of the rows are unusual, that is edge or far", last
    )
    assert "of the molecules are of a kind that the other has next to none of (GCS; " in last
    no, yes = about(model)["classes"]["training"]
    limit = f"a row is called so above {yes / (no + yes):.2f} (its share in training)"
    assert f"outland_probability is of '1'; {limit}" in done.stdout


def test_a_method_without_masks_is_explained_by_saliency(outland, sample, model):  # noqa: F811
    done = outland("explain", str(model), "bbbp.csv", "--most", "5", "--out", "r.html")
    assert done.returncode == 0, done.stderr
    assert "gradient saliency, for erm learns no mask" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "bbbp.csv", "--target", "active"], "unknown column of bbbp.csv 'active'"),
        (
            ["fit", "bbbp.csv", "--target", "p_np", "--smiles", "name"],
            "no row of bbbp.csv can be used; the first: row 1",
        ),
        (["fit", "nowhere.csv", "--target", "y"], "there is no file nowhere.csv"),
        (["fit", "one.csv", "--target", "y"], "every label in 'y' is '1': there is nothing to tell apart"),
        (["fit", "bad.csv", "--target", "y"], "no row of bad.csv can be used"),
        (["fit", "bbbp.csv", "--target", "p_np", "--method", "aai"], "Did you mean 'aia'"),
        (["fit", "bbbp.csv", "--target", "p_np", "--domain", "scafold"], "Did you mean 'scaffold'"),
        (["fit", "bbbp.csv", "--target", "p_np", "--set", "method.gama=1"], "Did you mean 'gamma'"),
        (["predict", "nowhere", "bbbp.csv"], "there is no model folder nowhere"),
        (["predict", "MODEL", "nowhere.csv"], "there is no file nowhere.csv"),
        (["predict", "MODEL", "bbbp.csv", "--smiles", "name"], "is 'name' its column of SMILES?"),
        (["predict", "MODEL", "bbbp.csv", "--smiles", "Smiles"], "Did you mean 'smiles'"),
        (["predict", "MODEL", "two.csv"], "Valid: mol, y; name its SMILES with --smiles COLUMN"),
        (["explain", "MODEL", "two.csv"], "name its SMILES with --smiles COLUMN"),
        (["fit", "two.csv", "--target", "y"], "name its SMILES with --smiles COLUMN"),
        (["predict", ".", "bbbp.csv"], ". is not a model folder"),
        (["explain", "MODEL", "bbbp.csv", "--out", "report.pdf"], "must end in .html, not report.pdf"),
        (["explain", "MODEL", "bbbp.csv", "--smiles", "name"], "is 'name' its column of SMILES?"),
    ],
)
def test_mistakes_are_sentences(outland, sample, model, tmp_path, words, sentence):  # noqa: F811
    (tmp_path / "one.csv").write_text("smiles,y\n" + "CCO,1\nCCN,1\n" * 5)
    (tmp_path / "two.csv").write_text("mol,y\nCCO,1\nCCN,0\n")
    (tmp_path / "bad.csv").write_text("smiles,y\nethanol,1\nwater,0\n")
    done = outland(*[str(model) if word == "MODEL" else word for word in words])
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"bbbp.csv", "one.csv", "bad.csv", "two.csv"}


def test_the_help_says_what_a_newcomer_needs(outland):  # noqa: F811
    told = outland("--help").stdout
    assert all(f" {name} " in told for name in ("fit", "predict", "explain", "shift"))
    for command, default in (("predict", "TABLE-predicted.csv"), ("explain", "TABLE-explained.html")):
        told = " ".join(outland(command, "--help").stdout.replace("│", "").split())
        assert "Column of SMILES. [default: as in training]" in told
        assert f"to write. [default: {default}]" in told


@pytest.mark.parametrize("name", ["fit", "predict", "explain"])
def test_paragraphs_of_help_are_wrapped_to_the_terminal(outland, name):  # noqa: F811
    lines = [line.strip() for line in outland(name, "--help").stdout.split("╭")[0].splitlines()]
    long = [line for line in lines if line]
    short = [line for line in long if len(line) < 60]
    assert len(short) <= 3  # the usage, and the last line of either paragraph


def test_a_folder_is_named_in_plain_letters():
    assert molecules._word("excel-%Active (µM) - 2-model") == "excel-Active-µM-2-model"
    assert molecules._word("t-  -model") == "t-model"
