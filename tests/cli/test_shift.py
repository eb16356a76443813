import json

import pytest

from tests.conftest import SAMPLES

QUICK = ["--trials", "1", "--most", "60", "--set", "shift.steps=20", "--set", "shift.folds=3", "--set"]
QUICK += ["backbone.width=8", "--set", "shift.samples=1000"]


def test_two_parts_of_a_dataset(outland):
    done = outland("shift", "motif/base:train", "motif/base:test", *QUICK)
    assert done.returncode == 0, done.stderr
    for words in ("covariate (GCS)", "correlation", "told apart", "null", "ε = ", "at most 60 graphs a side"):
        assert words in done.stdout
    assert "1 trial with 59 and 59 graphs, of 18,000 and 3,000" in done.stdout  # three classes, evenly
    assert "±" not in done.stdout
    assert "Note: motif/base is taken to be motif/base/covariate." in done.stdout
    assert "Note: with fewer than 100 graphs a side (59 here) all numbers are rough." in done.stdout
    assert "Note: one trial shows no spread" in done.stdout


def test_a_table_beside_itself(outland):
    done = outland("shift", str(SAMPLES / "bbbp.csv"), str(SAMPLES / "bbbp.csv"), *QUICK, "--trials", "2")
    assert "The two sets are the same graphs: there is no shift between them" in done.stdout
    assert done.stdout.count("2 rows set aside") == 1
    assert "±" in done.stdout


def test_json_says_everything(outland):
    done = outland("shift", "motif:train", "motif:id_test", "--json", "--epsilon", "inf", "--seed", "2", *QUICK)
    plain = json.loads(done.stdout)
    assert "motif is taken to be motif/base/covariate" in plain["notes"]
    assert plain["epsilon"] == "inf"
    assert plain["calibrated"] is False
    assert plain["seed"] == 2
    assert plain["settings"]["backbone"]["width"] == 8
    assert 0 <= plain["covariate"]["mean"] <= 1
    assert plain["sentence"]


def test_two_tables_with_and_without_labels(outland, tmp_path):
    rows = (SAMPLES / "bbbp.csv").read_text().splitlines()
    new = tmp_path / "new.csv"
    new.write_text("\n".join([rows[0], *(row for row in rows[1:] if ",1," in row)][:80]))  # one class is missing
    done = outland("shift", str(SAMPLES / "bbbp.csv"), str(new), "--target", "p_np", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "the second set has no graph of class 0" in done.stdout
    assert "bbbp.csv: 2 rows set aside; the first: row 60" in done.stdout
    done = outland("shift", str(SAMPLES / "bbbp.csv"), str(SAMPLES / "tox21.csv"), *QUICK)
    assert done.returncode == 0, done.stderr
    assert "correlation" not in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["motif/base:trai", "motif:test"], "Did you mean 'train'?"),
        (["motif", "motif:test"], "'motif' does not name a set of graphs: write it as DATASET/DOMAIN:PART"),
        (["motif/bass:train", "motif:test"], "unknown domain of motif 'bass'"),
        (["motif/base/covariat:train", "motif:test"], "Did you mean 'covariate'?"),
        (["motif:train", str(SAMPLES / "bbbp.csv")], "have different features"),
        (["nowhere.csv", "motif:test"], "there is no file nowhere.csv"),
        (["motif:train", "motif:test", "--epsilon", "small"], "--epsilon takes a number, inf or auto, not 'small'"),
        (["motif:train", "motif:test", "--target", "y"], "--target is for two tables"),
        (["motif:train", "motif:test", "--set", "shift.step=3"], "Did you mean 'steps'?"),
        (["motif:train", "motif:test", "--most", "5"], "shift.most must be at least 20"),
        ([str(SAMPLES / "bbbp.csv"), str(SAMPLES / "tox21.csv"), "--target", "p_np"], "unknown column of tox21.csv"),
        ([str(SAMPLES / "bbbp.csv"), str(SAMPLES / "bbbp.csv"), "--smiles", "x"], "unknown column of bbbp.csv 'x'"),
    ],
)
def test_mistakes_get_a_sentence(outland, words, sentence):
    done = outland("shift", *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_from_the_training_graphs_of_a_model(outland, model_folder):
    table = str(SAMPLES / "tox21.csv")
    done = outland("shift", "--model", str(model_folder), table, "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert (plain["first"], plain["second"]) == (f"training of {model_folder}", table)
    assert plain["graphs"]["given"] == [268, 240]
    assert 0 <= plain["covariate"]["mean"] <= 1
    assert "correlation" not in plain or plain["correlation"] is None
    shown = outland("shift", table, "--model", str(model_folder), *QUICK).stdout
    assert f"training of {model_folder} and tox21.csv" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["motif:train"], "name two sets of graphs, A and B, or one and the --model"),
        (["motif:train", "motif:test", "--model", "MODEL"], "name two sets of graphs, A and B, or one and the --model"),
        (["motif:train", "--model", "MODEL"], "motif:train has other features than the graphs that the model reads"),
        (["train", "--model", "MODEL"], "was trained on graphs in memory"),
        (["t.csv", "--model", "MODEL", "--picture", "map.png"], "--picture is for two tables of molecules"),
        (["t.csv", "--model", "nowhere"], "there is no model folder nowhere"),
    ],
)
def test_mistakes_with_a_model_get_a_sentence(outland, model_folder, words, sentence):
    done = outland("shift", *[str(model_folder) if word == "MODEL" else word for word in words])
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
