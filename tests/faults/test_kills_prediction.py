"""kill -9 while a table is predicted: the file is whole or not there, and the next attempt gives the same rows."""

import signal

import pytest

from outland.models import load_model
from outland.storage.snapshots import read_snapshot
from tests.faults import children
from tests.faults.harness import REPETITIONS, Killer, finish, scaled, some, status, told
from tests.faults.hostile import resealed

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a run on a small table."""
    folder = tmp_path_factory.mktemp("prediction")
    words = ["train", str(children.TABLE), "--target", "p_np", "--method", "erm", "--set", "train.epochs=2"]
    words += ["--set", "backbone.width=8", "--out", str(folder / "runs")]
    finish(children.command, words, folder / "log", folder / "cache")
    (run_folder,) = (folder / "runs").iterdir()
    return run_folder


def test_predictions(model, tmp_path, tally):
    head, *rows = children.TABLE.read_text().splitlines(keepends=True)
    table, log = tmp_path / "long.csv", tmp_path / "log"
    table.write_text(head + "".join(rows * (5 if REPETITIONS >= 1 else 2)))
    (tmp_path / "killed").mkdir()
    whole, out = tmp_path / "whole.csv", tmp_path / "killed" / "out.csv"
    words = ["predict", str(model), str(table), "--no-shift", "--out"]
    length = finish(children.predict, [*words, str(whole)], log, tmp_path / "cache")
    blocks = some((5, 1, 2, 9))
    for block in blocks:
        assert status(children.predict, [*words, str(out)], log, tmp_path / "cache", block) == -signal.SIGKILL
        assert not out.exists()  # though rows of earlier blocks were written
    killer = Killer(seed=5)
    while killer.kills < scaled(15):
        if killer.let(length, children.predict, [*words, str(out)], log, tmp_path / "cache"):
            assert not out.exists() or out.read_bytes() == whole.read_bytes()
        else:
            assert out.read_bytes() == whole.read_bytes()
        out.unlink(missing_ok=True)
    finish(children.predict, [*words, str(out)], log, tmp_path / "cache")
    assert out.read_bytes() == whole.read_bytes()
    assert list(out.parent.iterdir()) == [out]  # nothing half-written is left
    tally("kills", "prediction", killer.kills + len(blocks))


def test_a_prediction_on_a_disk_that_fills(model, small_disk, tmp_path, tally):
    disk, log = small_disk(12), tmp_path / "log"
    words = ["predict", str(model), str(children.TABLE), "--no-shift", "--out", str(disk / "out.csv")]
    assert status(children.command, words, log, tmp_path / "cache") == 2
    assert "No space left on device" in told(log)
    assert list(disk.iterdir()) == []
    small_disk(1000, again=True)
    finish(children.command, words, log, tmp_path / "cache")
    assert len((disk / "out.csv").read_text().splitlines()) == 301
    tally("faults", "full disks")


def test_model_folders_sealed_by_an_enemy(model, tmp_path, tally):
    tried = resealed(300, read_snapshot(model / "model"), tmp_path / "model", lambda: load_model(tmp_path / "model"))
    tally("inputs", "model folders", tried.inputs)
