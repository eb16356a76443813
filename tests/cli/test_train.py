import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from outland.cli import main

TINY = ["--set", "data.limit=48", "--set", "backbone.width=8", "--set", "train.epochs=2", "--seed", "3"]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def outland(cache, tmp_path, monkeypatch, capsys):
    """The command line, in this process: starting another for every call would cost seconds of imports each."""
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["outland", *words])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return Done(end.value.code or 0, captured.out, captured.err)

    return call


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
        (["trian"], ["'trian'", "Valid commands: ", "train"]),
        (["list", "method"], ["unknown list 'method'", "Did you mean 'methods'?"]),
    ],
)
def test_mistakes_get_a_sentence_and_status_2(outland, words, sentences):
    done = outland(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for sentence in sentences:
        assert sentence in done.stderr


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("datasets", ["motif", "base, size"]),
        ("methods", ["aia", "rdia", "NeurIPS"]),
        ("backbones", ["gcnii"]),
        ("settings", ["train.burn_in", "share of the epochs", "method.gamma (aia)"]),
    ],
)
def test_lists(outland, what, words):
    done = outland("list", what)
    assert done.returncode == 0
    assert all(word in done.stdout for word in words)


def test_settings_of_one_method_and_of_one_group(outland):
    done = outland("list", "settings", "gsat:mnist")
    assert "method.interval" in done.stdout
    assert "train.epochs" not in done.stdout
    shown = outland("list", "settings", "train").stdout
    assert "train.select" in shown
    assert "ood_val" in shown
    assert outland("list", "settings", "gast").returncode == 2
    assert "outland list settings aia" in outland("list", "methods", "aia").stderr


def test_going_on_and_starting_over_are_two_wishes(outland):
    done = outland("train", "motif", "--resume", "--force")
    assert done.returncode == 2
    assert "choose one" in done.stderr


def test_several_seeds_at_once(outland, tmp_path):
    done = outland("train", "motif", "--method", "erm", "--seeds", "2", *TINY)
    assert done.returncode == 0, done.stderr
    records = sorted(tmp_path.glob("runs/*/record.json"))
    assert [json.loads(record.read_text())["spec"]["seed"] for record in records] == [3, 4]
    tests = [100 * json.loads(record.read_text())["selection"]["ood_val+burn_in"]["test"] for record in records]
    assert f"{sum(tests) / 2:.2f} ± {abs(tests[0] - tests[1]) / 2:.2f}" in done.stdout
    assert "4 of 4 epochs of all runs" in done.stderr


def test_a_log_gets_a_line_now_and_then(outland):
    done = outland("train", "motif", "--method", "erm", *TINY)
    assert "erm: epoch 0: val" in done.stderr


def test_methods_are_listed_with_needs_masks_and_cost(outland):
    cells = [[cell.strip() for cell in line.split("│")] for line in outland("list", "methods").stdout.splitlines()]
    rows = {row[1]: row for row in cells if len(row) > 7 and row[2]}
    assert len(rows) == 18
    assert any(row[1] == "gsat:spurious-motif" for row in cells if len(row) > 7)
    assert [rows[name][4] for name in ("erm", "irm", "groupdro", "vrex", "dir")] == [
        "",
        "needed",
        "needed",
        "needed",
        "",
    ]
    assert [rows[name][5] for name in ("erm", "dir", "gsat", "aia", "flag")] == ["", "yes", "yes", "yes", ""]
    assert rows["erm"][6] == "1.0"
    assert all(float(row[6]) > 0.5 for row in rows.values())


def test_data_prepare_and_verify(outland):
    done = outland("data", "prepare", "motif", "--domain", "base")
    assert "train 18,000" in done.stdout
    done = outland("data", "verify", "motif", "--domain", "base")
    assert done.returncode == 0
    assert done.stdout.count("as published") == 5


def test_help_needs_no_heavy_import():
    heavy = ("torch", "torch_geometric", "numpy", "matplotlib")
    code = f"import sys, outland.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_module_runs_as_a_command():
    command = [sys.executable, "-m", "outland", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Graph classification that holds up" in done.stdout


def test_version(outland):
    from outland import __version__

    assert outland("--version").stdout.strip() == f"outland {__version__}"


SAMPLES = Path(__file__).parent / "data"
TOX = ["NR-AR", "NR-AhR", "SR-MMP"]


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


def test_data_show_draws_a_table(outland, tmp_path):
    done = outland("data", "show", str(SAMPLES / "bbbp.csv"), "--target", "p_np")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bbbp-scaffold.png").stat().st_size > 20000


def guide_example() -> str:
    """The method that CONTRIBUTING.md shows, word for word."""
    guide = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    return guide.partition("```python\n")[2].partition("```")[0]


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
