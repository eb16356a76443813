"""Every command that README, CONTRIBUTING and docs show is run, on less data and for fewer epochs than it asks for."""

import gzip
import re
import shlex
import shutil
from pathlib import Path

import pytest

from outland.datasets import TableSettings
from outland.graphs.portable import export_entry
from outland.training import RunSpec, run
from outland.training.run_folder import RunFolder
from tests.conftest import SAMPLES
from tests.models.cases import SMALL

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS_DATA = ("data show molbbbp", "data prepare molbbbp", "train molbbbp")
LESS = {
    "fit": "--epochs 1 --set backbone.width=8 --folds 2 --minutes 0.1",
    "predict": "--no-shift",
    "explain": "--most 20",
    "train": "--set data.limit=40 --set backbone.width=8 --set train.epochs=1 --force --device cpu",
    "shift": "--trials 1 --most 60 --set shift.steps=20 --set shift.folds=3 --set shift.samples=1000 --device cpu",
    "tune": "--epochs 1 --limit 40 --set backbone.width=8 --device cpu",
    "study": "--seeds 1 --epochs 1 --limit 40 --only ERM/motif-base --set backbone.width=8 --device cpu",
}


def commands() -> list[str]:
    """What stands after `outland` in code blocks and between backticks, each once; a comment behind it is left out."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = re.findall(r"^    outland ([a-z].*)$", text, re.MULTILINE)
        inline = [" ".join(one.split()) for one in re.findall(r"`outland ([a-z][^`]*)`", text)]
        found |= dict.fromkeys(line.partition("#")[0].strip() for line in [*lines, *inline])
    return list(found)


def shortened(command: str) -> list[str]:
    """The same command with less to do."""
    words = shlex.split(command.replace("METHOD", "aia").replace("path/to/", ""))
    runs = words[0] in LESS and not {"list", "--dry-run", "--help"} & set(words) and len(words) > 1
    more = shlex.split(LESS[words[0]]) if runs else []
    for option, few in {"--seeds": "2", "--trials": "1"}.items():
        if option in words:
            words[words.index(option) + 1] = few
    if words == ["data", "table"]:
        words.append("motif")  # all of the paper's datasets take minutes
    if "cmnist" in words:
        words = [word for word in words if word not in ("molhiv", "cmnist")]  # so do these
    if "--resume" in words:
        more.remove("--force")
    if words[0] == "shift" and "--trials" in words:
        more = more[2:]
    return words + more


@pytest.fixture(scope="session")
def folders(motif, cache, tmp_path_factory):
    """The model folder, the run's folder and the prepared one that the commands name."""
    out, table = tmp_path_factory.mktemp("documented"), TableSettings(str(SAMPLES / "bbbp.csv"), target=("p_np",))
    changes = {"train": {"epochs": 1}, "backbone": SMALL, "data": {"limit": 40}}
    folders = {}
    for name, dataset, given in (("bbbp-p_np-model", "bbbp", table), ("runs/RUN", "motif", None)):
        spec = RunSpec.make(dataset, "aia", changes=changes, table=given)
        run(spec, out, device="cpu", cache=cache)
        folders[name] = RunFolder(out, spec).path
    folders["bbbp-p_np-model"] /= "model"
    export_entry(cache.path({"name": "motif-base-covariate", "seed": 123, "recipe": 2}), out / "prepared")
    return {**folders, "prepared": out / "prepared"}


@pytest.fixture
def workplace(outland, cache, tmp_path, folders, quick_shift, request):
    """A folder with the files that the commands name."""
    head, *rows = (SAMPLES / "bbbp.csv").read_text().replace("p_np", "active").splitlines(keepends=True)
    half = len(rows) // 2
    for name, part in {"molecules.csv": rows, "old.csv": rows[:half], "new.csv": rows[half:]}.items():
        (tmp_path / name).write_text(head + "".join(part))
    with gzip.open(tmp_path / "molecules.csv.gz", "wt") as file:
        file.write(head.replace("smiles", "SMILES") + "".join(rows))
    (tmp_path / "examples").mkdir()
    for table in (ROOT / "examples").glob("*.csv"):
        (tmp_path / "examples" / table.name).write_text("".join(table.open(encoding="utf-8").readlines()[:120]))
    (tmp_path / "t.csv").write_text(head.replace("active", "y") + "".join(rows))
    if not request.node.callspec.params["command"].startswith("fit"):
        for name, folder in folders.items():
            shutil.copytree(folder, tmp_path / name)
    recipe = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "studies.md").read_text(), re.DOTALL)
    (tmp_path / "mine.toml").write_text(recipe.group(1))
    example = re.search(r"```python\n(.*?class Yours\(Method\[.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    (tmp_path / "yours.py").write_text(example.group(1))
    return outland


@pytest.mark.parametrize("command", commands())
def test_a_documented_command_works(workplace, command, request, monkeypatch):
    if command.startswith(NEEDS_DATA):
        monkeypatch.setenv("OUTLAND_DATA", str(request.getfixturevalue("data").folder))
    done = workplace(*shortened(command))
    # The first are named in passing, without their arguments; the others ask for seventeen searches, or for records of
    # a study that was never run, and say so.
    needs = ("--tuned", "--report", "study export", "study import")
    expected = 2 if command in ("train", "fit", "predict") or any(word in command for word in needs) else 0
    assert done.returncode == expected, done.stdout + done.stderr


def test_the_commands_are_found():
    found = commands()
    assert len(found) > 25
    assert "train motif --domain base --method aia --seed 1" in found
    assert "shift motif/base:train motif/base:test" in found
    assert "train motif --method path/to/yours.py:Yours --set method.strength=1" in found
