"""`outland train`."""

import json
from dataclasses import asdict

import pytest

from outland.models import load_model
from outland.nn import BackboneSettings
from outland.spec import TrainSettings
from tests.cli.cases import TINY, guide_example
from tests.conftest import SAMPLES

TOX = ["NR-AR", "NR-AhR", "SR-MMP"]


def test_train_writes_a_record_and_names_it(outland, tmp_path):
    done = outland("train", "motif", "--domain", "base", "--method", "aia", "--set", "method.gamma=0.5", *TINY)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["aia", "aia"]  # no bars without a terminal
    (record,) = tmp_path.glob("runs/*/record.json")
    assert str(record.relative_to(tmp_path)) in done.stdout
    assert "ood_val+burn_in *" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        (["train", "motiv"], ["unknown dataset 'motiv'", "Did you mean 'motif'?", "Valid: "]),
        (["train", "motif", "--method", "aai"], ["unknown method 'aai'", "'aia'", "erm"]),
        (["train", "motif", "--method", "aia:papr"], ["unknown preset of aia 'papr'", "'paper'", "rdia"]),
        (["train", "motif", "--domain", "colour"], ["unknown domain of motif 'colour'", "Valid: base, size"]),
        (["train", "motif", "--kind", "covariat"], ["Did you mean 'covariate'?"]),
        (["train", "motif", "--set", "method.gama=1"], ["unknown setting of method 'gama'", "Did you mean 'gamma'?"]),
        (["train", "motif", "--set", "methd.gamma=1"], ["unknown group of settings 'methd'", "'method'"]),
        (["train", "motif", "--set", "gamma"], ["write it as GROUP.NAME=VALUE"]),
        (["train", "motif", "--set", "method.gamma=big"], ["method.gamma takes a number, not 'big'"]),
        (["train", "motif", "--set", "train.epochs=2.5"], ["train.epochs takes a whole number"]),
        (["train", "motif", "--set", "backbone.kind=ginn"], ["Did you mean 'gin'?"]),
        (["train", "motif", "--set", "train.select=oracle"], ["unknown value of train.select 'oracle'"]),
        (["train", "motif", "--device", "tpu9"], ["unknown device 'tpu9'"]),
        (["train", "motif", "--sed", "1"], ["--sed", "Valid options: ", "--seed"]),
        (["train", "motif", "--epochs", "5"], ["--epochs. Did you mean --set train.epochs=VALUE? Valid options: "]),
        (["train", "motif", "--limit=50"], ["Did you mean --set data.limit=VALUE?"]),
        (["train", "motif", "--batch-size", "5"], ["Did you mean --set train.batch_size=VALUE?"]),
        (["train", "motif", "--gamma", "5"], ["Did you mean --set method.gamma=VALUE?"]),
        (["train", "motif", "--data", "nowhere"], ["--data nowhere: there is no such folder; make it first"]),
    ],
)
def test_mistakes_get_a_sentence_and_status_2(outland, words, sentences):
    done = outland(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for sentence in sentences:
        assert sentence in done.stderr


def test_going_on_and_starting_over_are_two_wishes(outland):
    done = outland("train", "motif", "--resume", "--force")
    assert done.returncode == 2
    assert "choose one" in done.stderr


def test_a_log_gets_a_line_now_and_then(outland):
    done = outland("train", "motif", "--method", "erm", *TINY)
    assert "erm: epoch 0: val" in done.stderr


@pytest.mark.parametrize(
    ("file", "targets", "rest", "words"),
    [
        (
            "bbbp.csv",
            ["p_np"],
            ["--domain", "scaffold"],
            ["298 of 300 rows are usable; 2 set aside", "quarantine.csv", "rocauc"],
        ),
        ("tox21.csv", TOX, ["--domain", "size"], ["task: binary", "rocauc"]),
        (
            "esol.csv",
            ["measured log solubility in mols per litre"],
            ["--domain", "random"],
            ["task: regression", "rmse"],
        ),
    ],
)
@pytest.mark.parametrize("method", ["erm", "aia"])
def test_train_on_a_table(outland, tmp_path, file, targets, rest, words, method):
    named = [word for target in targets for word in ("--target", target)]
    tiny = ["--set", "backbone.width=8", "--set", "train.epochs=1"]
    done = outland("train", str(SAMPLES / file), *named, *rest, "--method", method, *tiny)
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in words)
    (record,) = tmp_path.glob("runs/*/record.json")
    about = json.loads(record.read_text())["data"]
    assert about["used"] == sum(about["sizes"].values())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--target", "pnp"], "unknown column of bbbp.csv 'pnp'. Did you mean 'p_np'? Valid: name, num, p_np, smiles"),
        ([], "Name it with --target"),
        (["--target", "p_np", "--strict"], "2 rows cannot be used; the first: row 60, column 'smiles'"),
        (["--target", "p_np", "--domain", "time"], "name it with --time"),
        (["--target", "p_np", "--domain", "scafold"], "Did you mean 'scaffold'?"),
        (["--target", "p_np", "--task", "ranking"], "unknown value of table.task 'ranking'"),
    ],
)
def test_mistakes_with_a_table(outland, words, sentence):
    done = outland("train", str(SAMPLES / "bbbp.csv"), *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_that_is_not_there(outland):
    done = outland("train", "nowhere.csv", "--target", "y")
    assert done.returncode == 2
    assert "there is no file nowhere.csv" in done.stderr


def test_the_guide_s_method_trains_from_a_file_outside_the_package(outland, tmp_path):
    (tmp_path / "yours.py").write_text(guide_example())
    words = ["train", "motif", "--method", "yours.py:Yours", "--set", "method.strength=1", *TINY]
    done = outland(*words)
    assert done.returncode == 0, done.stderr
    (record,) = tmp_path.glob("runs/*-Yours-*/record.json")
    plain = json.loads(record.read_text())
    assert plain["spec"]["method_params"]["strength"] == 1
    assert "risk.penalty" in plain["curves"][0]["loss"]
    assert outland(*words, "--resume").returncode == 0
    absolute = [str(tmp_path / word) if word.startswith("yours.py") else word for word in words]
    assert "already finished" in outland(*absolute).stderr
    (tmp_path / "yours.py").write_text(guide_example().replace("h.square()", "h.abs()"))
    assert outland(*words, "--resume").returncode == 0
    assert len(list(tmp_path.glob("runs/*-Yours-*/record.json"))) == 2  # another method, another run


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none.py:Yours", "there is no file none.py"),
        ("yours.py", "--method yours.py:CLASS"),
        ("nameless.py:Yours", "must have a name"),
        ("silent.py:Yours", "must have a `classifier`, or a forward(batch)"),
        ("aimless.py:Yours", "must have a loss(batch, progress), or phases()"),
        ("plain.py:Yours", "a loss must give its terms by name"),
        ("yours.py:Your", "Did you mean"),
        ("broken.py:Yours", "broken.py cannot be imported: NameError"),
    ],
)
def test_mistakes_with_a_file(outland, tmp_path, name, sentence):
    (tmp_path / "yours.py").write_text(guide_example())
    (tmp_path / "broken.py").write_text("x = y")
    (tmp_path / "nameless.py").write_text(guide_example().replace("    name =", "    label ="))
    (tmp_path / "silent.py").write_text(guide_example().replace("self.classifier", "self.network"))
    (tmp_path / "aimless.py").write_text(guide_example().replace("def loss", "def price"))
    (tmp_path / "plain.py").write_text(
        guide_example().replace("return {", "return sum({").replace("        }", "        }.values())")
    )
    done = outland("train", "motif", "--method", name, *TINY)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_run_without_a_recipe_has_the_settings_own_defaults(outland, tmp_path):
    words = ["train", "motif", "--method", "erm", "--set", "data.limit=24", "--set", "backbone.width=8"]
    done = outland(*words, "--set", "train.epochs=1", "--recipe", "none")
    assert done.returncode == 0, done.stderr
    (record,) = tmp_path.glob("runs/*/record.json")
    plain = json.loads(record.read_text())
    assert plain["spec"]["train"] == asdict(TrainSettings(epochs=1))
    assert plain["spec"]["backbone"] == asdict(BackboneSettings(width=8))
    assert plain["selected"] == "ood_val"  # Motif's recipe has a burn-in
    sentence = "the recipe molhiv is for molhiv, not for motif"
    assert sentence in outland(*words, "--recipe", "molhiv").stderr


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (
            ["train", "motif", "--shift", "size", "--method", "erm", *TINY],
            "runs/motif-size-covariate-erm-*/record.json",
        ),
        (["train", "motif", "--shift=size", "--method", "erm", *TINY], "runs/motif-size-*/record.json"),
        (["data", "show", str(SAMPLES / "bbbp.csv"), "--target", "p_np", "--shift", "size"], "bbbp-size.png"),
    ],
)
def test_the_old_name_of_the_domain_still_works_and_says_so(outland, tmp_path, words, written):
    done = outland(*words)
    assert done.returncode == 0, done.stderr
    assert "Note: --shift is now called --domain; the old name will go." in done.stderr
    assert len(list(tmp_path.glob(written))) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", str(SAMPLES / "bbbp.csv"), "--target", "p_np", "--shift", "scafold"], "Did you mean 'scaffold'"),
        (["tune", "motif", "--method", "erm", "--shift", "colour"], "unknown domain of motif 'colour'"),
        (["data", "prepare", "motif", "--shift=colour"], "unknown domain of motif 'colour'"),
    ],
)
def test_the_old_name_of_the_domain_reaches_every_command(outland, words, sentence):
    done = outland(*words)
    assert done.returncode == 2
    assert "Note: --shift is now called --domain" in done.stderr
    assert sentence in done.stderr


def test_predict_has_a_shift_of_its_own(outland, model_folder):
    done = outland("predict", str(model_folder), str(SAMPLES / "bbbp.csv"), "--no-shift", "--shift", "--no-shift")
    assert done.returncode == 0, done.stderr
    assert "--domain" not in done.stderr


def test_settings_of_training_are_options_by_name(outland, tmp_path):
    words = ["--set", "train.class_balance=no", "--set", "train.total_samples=50", "--set", "backbone.width=8"]
    done = outland("train", str(SAMPLES / "bbbp.csv"), "--target", "p_np", "--method", "erm", *words)
    assert done.returncode == 0, done.stderr
    (record,) = tmp_path.glob("runs/*/record.json")
    plain = json.loads(record.read_text())
    assert len(plain["curves"]) == 4
    model = load_model(record.parent)
    assert model.training.class_counts == model.training.class_draws == plain["data"]["class_counts"]["train"]
    assert model.members[0].offset in ((), (0.0,))
