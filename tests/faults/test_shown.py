"""Every command that prints, given names, cells, labels and values that are markup or terminal commands: text."""

import csv
import json
import shutil
from functools import reduce
from pathlib import Path

import pytest

from outland.cli import main
from outland.storage.snapshots import read_snapshot
from tests.faults import children
from tests.faults.hostile import sealed
from tests.faults.test_strangers import changed, finished, leaves, tiny  # noqa: F401

pytestmark = pytest.mark.faults
OWNED = "\x1b]0;owned\x07[/b]"
FAST = ["--device", "cpu", "--set", "backbone.width=8", "--set", "backbone.layers=2"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table and a recipe whose names, columns, labels, cells and values want to be more than text."""
    folder = tmp_path_factory.mktemp("shown")
    with children.TABLE.open(newline="") as stream:
        rows = [(row["smiles"], row["p_np"]) for row in csv.DictReader(stream)][:60]
    table = folder / f"t{OWNED.replace('/', '|')}.csv"
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["smiles", f"y{OWNED}", f"note{OWNED}"])
        writer.writerows([[smiles, f"{label}{OWNED}", OWNED] for smiles, label in rows])
        writer.writerow([f"C{OWNED}", f"1{OWNED}", ""])
    source = json.dumps(OWNED)
    lines = [f"datasets = [{source}]", f"about = {source}", "[common.train]"]
    (folder / "mine.toml").write_text("\n".join([*lines, f"epochs = {{ value = 1, source = {source} }}"]))
    return folder, str(table), str(folder / f"m{OWNED.replace('/', '|')}")


@pytest.fixture
def said(place, monkeypatch, capfd):
    """What a command printed, in which no letter is a command to the terminal."""

    def run(words, codes=(0, None), **other) -> str:
        names = {"TABLE": place[1], "MODEL": place[2], "OWNED": OWNED, **other}
        filled = [reduce(lambda word, name: word.replace(name, names[name]), names, word) for word in words]
        monkeypatch.setattr("sys.argv", ["outland", *filled])
        monkeypatch.setenv("OUTLAND_CACHE", str(place[0] / "cache"))
        monkeypatch.setenv("COLUMNS", "1000")  # no line is folded
        monkeypatch.chdir(place[0])  # lists of rows that are set aside are written there
        with pytest.raises(SystemExit) as ended:
            main()
        shown = "".join(capfd.readouterr())
        assert ended.value.code in codes, shown
        assert not {letter for letter in shown if letter != "\n" and not letter.isprintable()}, shown
        return shown

    return run


def test_commands_of_tables_print_text(place, said, tally):
    out = f"{place[0]}/OWNED".replace("OWNED", OWNED.replace("/", "|"))
    target = ["--target", "yOWNED", "--smiles", "smiles"]
    quick = ["--trials", "1", "--no-labels", "--set", "shift.steps=2"]
    fit = ["fit", "TABLE", *target, "--method", "erm", "--epochs", "1", "--out", "MODEL", "--runs", f"{place[0]}/runs"]
    commands = [
        [*fit, *FAST],
        ["predict", "MODEL", "TABLE", "--out", f"{out}.csv"],
        ["evaluate", "MODEL", "TABLE"],
        ["evaluate", "MODEL", "TABLE", "--json"],
        ["explain", "MODEL", "TABLE", "--out", f"{out}.html"],
        ["shift", "TABLE", "TABLE", *target, *quick],
        ["shift", "TABLE", "TABLE", *target, *quick, "--json"],
        ["shift", "TABLE", "--model", "MODEL", *quick],
        ["train", "TABLE", *target, "--method", "erm", "--set", "train.epochs=1", "--out", out, *FAST],
        ["data", "prepare", "TABLE", *target],
        ["data", "show", "TABLE", *target, "--out", f"{out}.png"],
        ["list", "recipes", f"{place[0]}/mine.toml"],
    ]
    for words in commands:
        assert "owned" in said(words), words
    tally("inputs", "markup and terminal commands", len(commands))


def test_mistakes_are_repeated_as_text(tiny, said, tally):  # noqa: F811
    commands = [
        ["predict", "OWNED", "TABLE"],
        ["predict", "MODEL", "OWNED.csv"],
        ["predict", "MODEL", "TABLE", "--smiles", "OWNED"],
        ["fit", "TABLE", "--target", "OWNED"],
        ["train", "OWNED", "--method", "erm"],
        ["train", "motif", "--method", "OWNED"],
        ["train", "motif", "--set", "OWNED=1"],
        ["train", "motif", "--set", "train.OWNED=1"],
        ["tune", "OWNED", "--method", "erm"],
        ["study", "OWNED"],
        ["study", "covariate", "--only", "OWNED"],
        ["study", "import", "OWNED"],
        ["data", "verify", "OWNED"],
        ["list", "OWNED"],
        ["list", "recipes", "OWNED"],
        ["OWNED"],
        ["predict", "--OWNED"],
        ["shift", "OWNED", "OWNED"],
    ]
    for words in commands:
        assert "owned" in said(words, (1, 2), MODEL=str(tiny)), words
    tally("inputs", "markup and terminal commands", len(commands))


def test_studies_print_text(finished, said, tmp_path, tally):  # noqa: F811
    folder, slug = Path(shutil.copytree(finished[2], tmp_path / "study")), finished[3]
    record = folder / "runs" / slug / "record.json"
    (folder / "runs" / slug / "failure.json").write_text(json.dumps({"error": f"{OWNED} failed"}))
    record.unlink()
    words = ["study", "covariate", "--only", "ERM/motif-base", "--seeds", "1", "--device", "cpu", "--report"]
    words += [part for word in ("train.epochs=1", "data.limit=24", "backbone.width=8") for part in ("--set", word)]
    assert "owned" in said([*words, "--out", str(folder)], (0, 1, 2, None))
    tally("inputs", "markup and terminal commands")


def test_models_sealed_by_an_enemy_print_text(tiny, said, tmp_path, tally):  # noqa: F811
    """Each text of a model folder is replaced; what commands then say is a result or a sentence, without commands."""
    saved, table = read_snapshot(tiny), tmp_path / "t.csv"
    table.write_text("smiles\nCCO\nc1ccccc1O\n")
    paths = list(leaves(saved.values))
    for path in paths:
        sealed(tmp_path / "model", changed(saved.values, path, OWNED), saved.tensors)
        for words in (["predict", "--no-shift", "--force", "--out", f"{tmp_path}/o.csv"], ["evaluate"]):
            named = {"MODEL": str(tmp_path / "model"), "TABLE": str(table)}
            said([words[0], "MODEL", "TABLE", *words[1:]], (0, None, 2), **named)
    assert len(paths) > 20
    tally("inputs", "markup and terminal commands", 2 * len(paths))


def test_a_demonstration_in_a_folder_with_brackets(motif, cache, said, tmp_path, monkeypatch, tally):
    monkeypatch.setattr("outland.demo._SETTINGS", ["data.limit=60", "backbone.width=8", "train.epochs=2"])
    assert "owned" in said(["demo", "--out", f"{tmp_path}/{OWNED.replace('/', '|')} [/b]"])
    tally("inputs", "markup and terminal commands")
