"""The quick ones, which every run of the tests has: what must never come back."""

import io
import pickle
from pathlib import Path

import pytest
import torch

from outland.chem.limits import MAX_ATOMS
from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.datasets import TableSettings
from outland.datasets.superpixels import read_published
from outland.errors import CannotWrite, OutlandError
from outland.recipes import find_recipe
from outland.storage.files import write_text
from outland.storage.snapshots import DamagedSnapshot, read_snapshot
from outland.studies import find_study
from outland.studies.engines.archives import unpack
from outland.studies.tuned import with_tuned_settings
from outland.tables.reading import column_names
from outland.training import RunRecord, RunSpec, run
from outland.training.run_folder import RunFolder
from tests.faults.hostile import Tried, sealed

DEEP = "[" * 100_000
SMALL = {"train": {"epochs": 1}, "data": {"limit": 24}, "backbone": {"width": 8}}


def test_depth_is_no_way_in(tmp_path):
    for name in ("record.json", "state.json", "search.json"):
        (tmp_path / name).write_text(DEEP)
    (tmp_path / "deep.toml").write_text(f"a = {DEEP}")
    with pytest.raises(OutlandError, match="nested too deeply"):
        RunRecord.read(tmp_path / "record.json")
    with pytest.raises(DamagedSnapshot, match="nested too deeply"):
        read_snapshot(tmp_path)
    with pytest.raises(OutlandError, match="not the report of a search"):
        with_tuned_settings(find_study("covariate").cells(1, only=["ERM/motif-base"]), tmp_path.parent)
    with pytest.raises(OutlandError, match="is not TOML"):
        find_recipe(str(tmp_path / "deep.toml"))


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["datasets = 3", 'about = "x"'], "datasets has not the form"),
        (["datasets = []", 'about = "x"', "[shape]", 'motif = "large"'], "shape has not the form"),
        (["datasets = []", 'about = "x"', "[common.train]", "epochs = { value = 1, source = 2 }"], "must be written"),
        (["datasets = []", f"about = {'9' * 5000}"], "is not TOML"),
    ],
)
def test_recipes_of_another_form_get_a_sentence(tmp_path, lines, sentence):
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    with pytest.raises(OutlandError, match=sentence):
        find_recipe(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("name", ["{} = 1", "[{}]", "[[{}]]", "x = {{ {} = 1 }}"])
def test_a_name_of_many_parts_is_refused_at_once(tmp_path, name, tally):
    """A name of 40 kilobytes took seconds and a gigabyte, and a recipe may have a thousand."""
    import time

    (tmp_path / "mine.toml").write_text(name.format(".".join(["a"] * 500_000)))
    started = time.process_time()
    with pytest.raises(OutlandError, match=r"mine\.toml: more than 100 dots in the names of a line"):
        find_recipe(str(tmp_path / "mine.toml"))
    assert time.process_time() - started < 1
    tally("inputs", "recipes")


def test_a_list_is_no_number():
    with pytest.raises(OutlandError, match="takes a whole number"):
        RunSpec.make("motif", "erm", changes={"train": {"epochs": [1, 2]}})


def test_a_run_archive_that_is_none_gets_a_sentence(tmp_path):
    for content in (b"", b"archive"):
        with pytest.raises(OutlandError, match="no part of a run"):
            unpack(content, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_gets_a_sentence(tmp_path):
    with pytest.raises(CannotWrite, match="No such file or directory"):
        write_text(tmp_path / "nowhere" / "file", "text")


@pytest.mark.parametrize("text", ["C" * 4999, "*" * 4000, "C(" * 1600 + "C" + ")" * 1600, ".".join("C" * 2400)])
def test_a_giant_molecule_is_set_aside_at_once(text):
    (chunk,) = read_molecules([text], MoleculeOptions(canonical=True, fingerprint=True), "")
    ((_, reason),) = chunk.failures
    assert f"the largest taken has {MAX_ATOMS}" in reason


class Bomb:
    """Leaves a file where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return (Path.touch, (self.place,))


def test_pickles_are_never_opened(tmp_path, tally):
    tried, ran = Tried(), tmp_path / "ran"
    bomb = pickle.dumps(Bomb(ran))
    pickle.loads(bomb)
    assert ran.exists()  # it works
    ran.unlink()
    stream = io.BytesIO()
    torch.save(Bomb(ran), stream)
    for content in (bomb, stream.getvalue()):
        sealed(tmp_path / "model", {}, content)
        with pytest.raises(DamagedSnapshot):
            read_snapshot(tmp_path / "model")
        for name in ("table.csv", "table.parquet", "table.csv.gz"):
            (tmp_path / name).write_bytes(content)
            tried(lambda name=name: column_names(tmp_path / name))
            table = TableSettings(str(tmp_path / name), target=("y",))
            tried(lambda table=table: table.opened())
        (tmp_path / "superpixels.pt").write_bytes(content)
        with pytest.raises(OutlandError):
            read_published(tmp_path / "superpixels.pt")
        tried.inputs += 2
    assert not ran.exists()
    tally("inputs", "pickles", tried.inputs)


def test_brackets_in_a_path_are_no_markup(motif, cache, tmp_path):
    spec = RunSpec.make("motif", "erm", changes=SMALL)
    out = tmp_path / "a [/b] [red]"
    for number in (0, 1):
        (RunFolder(out, spec).checkpoints.folder / f"epoch-0000{number}").mkdir(parents=True)
    with pytest.raises(OutlandError, match="is intact"):
        run(spec, out, resume=True, device="cpu", cache=cache)
