"""`outland fit`, `predict`, `evaluate` and `explain`, as a person meets them."""

import csv
import json
import re
import shutil
import sys

import numpy as np
import pytest
from sklearn.base import clone

from outland.estimators import GraphClassifier
from outland.models import load_model
from tests.conftest import SAMPLES
from tests.models.cases import SMALL, bbbp
from tests.tables.test_streams import Input

SMALLER = ["--epochs", "1", "--set", "backbone.width=16", "--set", "backbone.layers=3", "--folds", "2"]
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
    assert re.search(r"298 molecules held out in \d folds", text)
    assert all(name in text for name in ("forest", "gradient boosting", "weighted mean", "delivered"))
    assert "On 298 molecules of scaffolds it has not seen, it ranks '1' above '0' in" in text
    assert "the model has seen all 298 rows" in text
    assert "outland predict bbbp-p_np-model NEW.csv" in text
    assert text.splitlines()[-1].startswith("Advice: use it for new scaffolds, and expect about ROC-AUC")
    with (tmp_path / "bbbp-p_np-model-set-aside.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 2
    card = (tmp_path / "bbbp-p_np-model" / "README.md").read_text()
    sentence = re.search(
        r"On the held-out rows it said \d+% on average where \d+% are '1', and called \d+% right", text
    )
    assert sentence is not None
    assert sentence.group() in card
    assert "SHA-256" in card
    assert "## Contenders" in card

    done = outland("predict", "bbbp-p_np-model", "bbbp.csv", "--no-shift")
    assert done.returncode == 0, done.stderr
    assert "bbbp-predicted.csv: 300 rows" in done.stdout
    assert "  2 rows: RDKit cannot read the SMILES (first: row 6" in done.stdout
    assert "298 of these 300 rows were in the model's training" in done.stdout
    done = outland("explain", "bbbp-p_np-model", "bbbp.csv", "--most", "30")
    assert done.returncode == 0, done.stderr
    assert "bbbp-explained.html: 30 molecules, the first of bbbp.csv" in done.stdout
    assert "red: atoms that push towards p_np = 1; blue: away from it" in done.stdout
    assert (tmp_path / "bbbp-explained.html").read_text().count("<svg") >= 30

    for words in (
        ("fit", "bbbp.csv", "--target", "p_np"),
        ("predict", "bbbp-p_np-model", "bbbp.csv"),
        ("explain", "bbbp-p_np-model", "bbbp.csv"),
    ):
        again = outland(*words)
        assert (again.returncode, "exists" in again.stderr, "--force" in again.stderr) == (2, True, True)


def test_one_method_alone_takes_its_settings_and_others_do_not(outland, sample, tmp_path):
    words = ["fit", "bbbp.csv", "--target", "p_np", "--out", "m", "--seed", "4", *SMALLER]
    done = outland(*words, "--set", "method.lr=0.01")
    assert (done.returncode, "is a setting of one method: name it with --method" in done.stderr) == (2, True)
    done = outland(*words, "--method", "cal", "--no-balance", "--set", "method.lr=0.01")
    assert done.returncode == 0, done.stderr
    model = load_model(tmp_path / "m")
    assert {member.name for member in model.members} == {"cal"}
    assert (model.spec.method_params.lr, model.spec.train.class_balance) == (0.01, False)
    assert (clone(GraphClassifier.load(tmp_path / "m")).random_state, model.spec.domain) == (4, "scaffold")


def test_a_fit_of_numbers_speaks_of_numbers(outland, quick_shift, tmp_path):
    shutil.copy(SAMPLES / "esol.csv", tmp_path / "esol.csv")
    done = outland("fit", "esol.csv", "--target", SOLUBILITY, "--method", "forest", *SMALLER)
    assert done.returncode == 0, done.stderr
    folder = "esol-measured-log-solubility-in-mols-per-litre-model"
    after = done.stdout.split("Next:\n")[1].splitlines()
    assert f"outland predict {folder} NEW.csv" in after[0]
    assert "# a prediction for each new molecule, and how far to trust it" in after[0]
    score = load_model(tmp_path / folder).assessment.of("test")[0]
    assert f"its predictions are off by {score.score.value:.3f} (" in done.stdout
    assert f"always saying the training mean is off by {score.mean_error:.3f}" in done.stdout
    assert score.score.value < 0.8 * score.mean_error
    assert "root mean squared error (95% interval)" in " ".join(done.stdout.split())


def test_a_fit_of_standard_input_names_it_and_a_target_counts_once(outland, sample, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Input((tmp_path / "bbbp.csv").read_bytes()))
    done = outland("fit", "-", "--target", "p_np", "--target", "p_np", "--method", "gp", "--folds", "2")
    assert done.returncode == 0, done.stderr
    folder = "standard-input-p_np-model"
    assert f"outland explain {folder} -" in done.stdout
    assert load_model(tmp_path / folder).targets == ["p_np"]


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


def test_no_shift_is_measured_from_a_few_training_rows(outland, sample, tmp_path):
    smiles, labels = bbbp()
    few = [row for label in (0, 1) for row in np.flatnonzero(np.array(labels) == label)[:9]]
    (tmp_path / "few.csv").write_text("smiles,y\n" + "".join(f"{smiles[row]},{labels[row]}\n" for row in few))
    words = ["--target", "y", "--method", "forest", "--domain", "random", "--folds", "2", "--out", "few"]
    assert outland("fit", "few.csv", *words).returncode == 0
    done = outland("predict", "few", "bbbp.csv", "--gcs")
    assert done.returncode == 0, done.stderr
    assert "bbbp-predicted.csv: 300 rows" in done.stdout
    assert "A classifier" not in done.stdout
    assert "GCS" not in done.stdout


def test_a_score_on_training_rows_is_preceded_by_a_word_on_them(outland, sample, model):
    words = ("evaluate", str(model), "bbbp.csv", "--target", "p_np")
    lines = outland(*words).stdout.splitlines()
    note = "298 of these 298 rows were in the model's training (or chose its epoch): its errors here flatter it."
    assert (lines[0], lines.count(note)) == (note, 1)
    assert "95% interval" in lines[3]
    assert json.loads(outland(*words, "--json").stdout)["notes"][0] == note


def test_contributions_are_drawn_and_written(outland, sample, model, tmp_path):
    words = ("explain", str(model), "bbbp.csv", "--most", "5", "--out", "r.html")
    done = outland(*words, "--atoms", "atoms.csv", "--towards", "0")
    assert done.returncode == 0, done.stderr
    assert "red: atoms that push towards 0; blue: away from it" in done.stdout
    assert "hiding the atoms that count most" in done.stdout
    lines = (tmp_path / "atoms.csv").read_text().splitlines()
    assert lines[0] == "row,molecule,atom,element,contribution"
    assert f"atoms.csv: {len(lines) - 1} atoms" in done.stdout
    again = outland(*words, "--force", "--show", "mask")
    assert "erm has learned no mask: show contributions instead" in again.stderr
    assert "Did you mean 'mask'" in outland(*words, "--force", "--show", "masks").stderr
    assert "choose another --atoms" in outland(*words, "--force", "--atoms", "bbbp.csv").stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "bbbp.csv", "--target", "active"], "unknown column of bbbp.csv 'active'"),
        (
            ["fit", "bbbp.csv", "--target", "p_np", "--smiles", "name"],
            "no row of bbbp.csv can be used; the first: row 1",
        ),
        (["fit", "bbbp.csv"], "which column of bbbp.csv holds the labels? Name it with --target (columns: num, name"),
        (["fit", "nowhere.csv", "--target", "y"], "there is no file nowhere.csv"),
        (["fit", "one.csv", "--target", "y"], "every label in 'y' is '1': there is nothing to tell apart"),
        (["fit", "bad.csv", "--target", "y"], "no row of bad.csv can be used"),
        (["fit", "bbbp.csv", "--target", "p_np", "--method", "aai"], "Did you mean 'aia'"),
        (["fit", "bbbp.csv", "--target", "p_np", "--domain", "scafold"], "Did you mean 'scaffold'"),
        (["fit", "bbbp.csv", "--target", "p_np", "--set", "method.gama=1"], "is a setting of one method: name it"),
        (["fit", "bbbp.csv", "--target", "p_np", "--method", "aia", "--set", "method.gama=1"], "Did you mean 'gamma'"),
        (["fit", "bbbp.csv", "--target", "p_np", "--recipe", "motiv"], "Did you mean 'motif'"),
        (["predict", "nowhere", "bbbp.csv"], "there is no model folder nowhere"),
        (["predict", "MODEL", "nowhere.csv"], "there is no file nowhere.csv"),
        (["predict", "MODEL", "bbbp.csv", "--smiles", "name"], "is 'name' its column of SMILES?"),
        (["predict", "MODEL", "bbbp.csv", "--smiles", "Smiles"], "Did you mean 'smiles'"),
        (["predict", "MODEL", "two.csv"], "which column of two.csv holds the SMILES, a or b? Name it with --smiles"),
        (["predict", "MODEL", "test"], "was trained on graphs in memory: name a table or DATASET/DOMAIN:PART"),
        (["predict", "MODEL", "motif/base:test"], "motif/base:test has other features than the graphs"),
        (["predict", "MODEL", "motif/bass:test"], "unknown domain of motif 'bass'"),
        (["explain", "MODEL", "two.csv"], "holds the SMILES, a or b? Name it with --smiles"),
        (["fit", "two.csv", "--target", "y"], "holds the SMILES, a or b? Name it with --smiles"),
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
    (tmp_path / "two.csv").write_text("a,b,y\nCCOC,CCNC,1\nc1ccccc1,CCCC,0\n")
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
        assert "Column of SMILES. [default: as in training, else the one that can be read as such]" in text
        assert f"[default: {default}]" in text


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
