"""`outland fit`, `predict`, `evaluate` and `explain`, as a person meets them."""

import csv
import re
import shutil

import pytest
from sklearn.base import clone

from outland.estimators import GraphClassifier, GraphRegressor
from outland.models import load_model
from tests.conftest import SAMPLES
from tests.models.cases import SMALL, bbbp

SMALLER = ["--epochs", "1", "--set", "backbone.width=16", "--set", "backbone.layers=3"]
SOLUBILITY = "measured log solubility in mols per litre"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return GraphClassifier("erm", epochs=1, backbone=SMALL).fit(*bbbp()).save(tmp_path_factory.mktemp("m") / "model")


@pytest.fixture
def sample(tmp_path, quick_shift):
    return shutil.copy(SAMPLES / "bbbp.csv", tmp_path / "bbbp.csv")


def test_a_table_becomes_a_model_a_table_and_a_page(outland, sample, tmp_path):
    done = outland("fit", "bbbp.csv", "--target", "p_np", *SMALLER)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert "298 of 300 rows are usable; 2 set aside" in text
    assert re.search(r"\d+ scaffolds; from \d+ to \d+ atoms", text)
    assert "of 298 labels are 1" in text
    assert "validation" in text
    assert "held out" in text
    assert "The held-out molecules are too few to judge (2 rows of one class): at least 10" in text
    assert "Against ERM" not in text
    assert "Took" in text
    assert "outland predict bbbp-p_np-model NEW.csv" in text
    with (tmp_path / "bbbp-p_np-model-set-aside.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 2
    card = (tmp_path / "bbbp-p_np-model" / "README.md").read_text()
    assert "| held out | p\\_np | ROC-AUC | too few to judge (2 rows of one class) | – | – |" in card
    assert "SHA-256" in card

    done = outland("predict", "bbbp-p_np-model", "bbbp.csv", "--no-shift")
    assert done.returncode == 0, done.stderr
    assert "bbbp-predicted.csv: 300 rows" in done.stdout
    assert "  2 rows: RDKit cannot read the SMILES (first: row 6" in done.stdout
    assert "of the rows are unusual, that is edge or far" in done.stdout.splitlines()[1]
    assert "  Its own held-out molecules were too few to judge (2 rows of one class)." in done.stdout.splitlines()
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


def test_a_fit_that_can_be_judged_says_how_good_it_is(outland, sample, tmp_path):
    done = outland("fit", "bbbp.csv", "--target", "p_np", "--domain", "random", "--out", "m", *SMALLER)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert "drawn at random and not seen, it puts a '1' above a '0' in" in text
    sentence = re.search(
        r"On the held-out rows it said \d+% on average where 53% are '1', and called \d+% right.*\.", text
    )
    assert sentence is not None
    assert sentence.group() in (tmp_path / "m" / "README.md").read_text()
    assert "Against ERM, plain training:" in text


@pytest.mark.parametrize(
    "words",
    [["--no-balance", *SMALLER], ["--method", "cal", "--set", "train.batch_size=50", "--set", "train.total_samples=9"]],
)
def test_a_clone_of_what_fit_saved_is_trained_alike(words, outland, sample, tmp_path):
    done = outland("fit", "bbbp.csv", "--target", "p_np", "--no-compare", "--out", "m", "--seed", "4", *words)
    assert done.returncode == 0, done.stderr
    loaded = GraphClassifier.load(tmp_path / "m")
    smiles, labels = bbbp()
    copy = clone(loaded).fit(smiles[:80], labels[:80])
    ours, theirs = copy.model_.spec, loaded.model_.spec
    for name in ("method", "method_params", "backbone", "train", "seed", "domain", "kind"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert (copy.random_state, copy.domain) == (4, "scaffold")


def test_a_fit_of_numbers_speaks_of_numbers(outland, quick_shift, tmp_path):
    shutil.copy(SAMPLES / "esol.csv", tmp_path / "esol.csv")
    done = outland("fit", "esol.csv", "--target", SOLUBILITY, "--method", "erm", *SMALLER)
    assert done.returncode == 0, done.stderr
    folder = "esol-measured-log-solubility-in-mols-per-litre-model"
    after = done.stdout.split("Next:\n")[1].splitlines()
    assert f"outland predict {folder} NEW.csv" in after[0]
    assert "# a prediction and a distance" in after[0]
    assert len({line.index("#") for line in after}) == 1
    (line,) = [line for line in done.stderr.splitlines() if "epoch 0" in line]
    value = re.match(r"erm: epoch 0: val (\d+\.\d{3})", line).group(1)
    score = load_model(tmp_path / folder).assessment.of("val")[0].score.value
    assert float(value) == pytest.approx(score, abs=6e-4)  # in the unit of the table, for there is one epoch
    assert clone(GraphRegressor.load(tmp_path / folder)).epochs == 1


def test_a_place_that_cannot_hold_a_model_is_refused_before_training(outland, sample, tmp_path, monkeypatch):
    monkeypatch.setattr("outland.estimators.fitting.fit", lambda *_, **__: pytest.fail("it trained"))
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


def test_prediction_ends_with_the_shift_and_advice(outland, sample, model):
    done = outland("predict", str(model), "bbbp.csv", "--out", "new/out.csv")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.match(r"(Little is new here|Trust it|Do not trust it)", lines[0])
    assert re.match(r"  \d+% of the rows are unusual, that is edge or far", lines[1])
    assert "A classifier" in lines[2]
    assert "GCS" not in done.stdout
    more = outland("predict", str(model), "bbbp.csv", "--out", "again.csv", "--gcs", "--no-shift")
    assert "of the molecules are of a kind that the other has next to none of (GCS; " in more.stdout
    assert "A classifier" not in more.stdout
    assert "outland_probability is of '1'; a row is called so above one half" in done.stdout


def test_a_method_without_masks_is_explained_by_saliency(outland, sample, model):
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
        (["fit", "bbbp.csv", "--target", "p_np", "--recipe", "motiv"], "Did you mean 'motif'"),
        (["predict", "nowhere", "bbbp.csv"], "there is no model folder nowhere"),
        (["predict", "MODEL", "nowhere.csv"], "there is no file nowhere.csv"),
        (["predict", "MODEL", "bbbp.csv", "--smiles", "name"], "is 'name' its column of SMILES?"),
        (["predict", "MODEL", "bbbp.csv", "--smiles", "Smiles"], "Did you mean 'smiles'"),
        (["predict", "MODEL", "two.csv"], "Valid: mol, y; name its SMILES with --smiles COLUMN"),
        (["predict", "MODEL", "test"], "was trained on graphs in memory: name a table or DATASET/DOMAIN:PART"),
        (["predict", "MODEL", "motif/base:test"], "motif/base:test has other features than the graphs"),
        (["predict", "MODEL", "motif/bass:test"], "unknown domain of motif 'bass'"),
        (["explain", "MODEL", "two.csv"], "name its SMILES with --smiles COLUMN"),
        (["fit", "two.csv", "--target", "y"], "name its SMILES with --smiles COLUMN"),
        (["predict", ".", "bbbp.csv"], ". is not a model folder"),
        (["explain", "MODEL", "bbbp.csv", "--out", "report.pdf"], "must end in .html, not report.pdf"),
        (["explain", "MODEL", "bbbp.csv", "--smiles", "name"], "is 'name' its column of SMILES?"),
        (["evaluate", "MODEL", "bbbp.csv"], "unknown column of bbbp.csv 'label'"),
        (["evaluate", "MODEL", "bbbp.csv", "--target", "p_np", "--target", "num"], "name as many --target columns"),
        (["evaluate", "MODEL", "motif/base:test", "--target", "p_np"], "--target is for a table"),
        (["evaluate", "MODEL", "bad.csv", "--target", "y"], "no row of bad.csv can be used"),
    ],
)
def test_mistakes_are_sentences(outland, sample, model, tmp_path, words, sentence):
    (tmp_path / "one.csv").write_text("smiles,y\n" + "CCO,1\nCCN,1\n" * 5)
    (tmp_path / "two.csv").write_text("mol,y\nCCO,1\nCCN,0\n")
    (tmp_path / "bad.csv").write_text("smiles,y\nethanol,1\nwater,0\n")
    done = outland(*[str(model) if word == "MODEL" else word for word in words])
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"bbbp.csv", "one.csv", "bad.csv", "two.csv"}


def test_the_help_says_what_a_newcomer_needs(outland):
    text = outland("--help").stdout
    assert all(f" {name} " in text for name in ("fit", "predict", "evaluate", "explain", "shift"))
    for command, default in (("predict", "DATA-predicted.csv"), ("explain", "DATA-explained.html")):
        text = " ".join(outland(command, "--help").stdout.replace("│", "").split())
        assert "Column of SMILES. [default: as in training]" in text
        assert f"to write. [default: {default}]" in text


@pytest.mark.parametrize("name", ["fit", "predict", "evaluate", "explain"])
def test_paragraphs_of_help_are_wrapped_to_the_terminal(outland, name):
    lines = [line.strip() for line in outland(name, "--help").stdout.split("╭")[0].splitlines()]
    short = [line for line in lines if line and len(line) < 60]
    assert len(short) <= 3  # the usage, and the last line of either paragraph


@pytest.mark.parametrize(("target", "folder"), [("%Active (µM) - 2", "excel-Active-µM-2-model"), ("  ", "excel-model")])
def test_a_folder_is_named_in_plain_letters(outland, tmp_path, target, folder):
    (tmp_path / folder).mkdir()
    done = outland("fit", "excel.csv", "--target", target)
    assert f"{folder} exists" in done.stderr
