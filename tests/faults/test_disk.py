"""A disk that fills: a sentence, nothing corrupt, and all goes on when there is space again."""

import json

import pytest

from outland.storage.snapshots import read_snapshot
from tests.faults import children
from tests.faults.harness import finish, some, status, told
from tests.faults.test_kills import litter, records

pytestmark = pytest.mark.faults
SETS = ["--set", "train.epochs=6", "--set", "train.checkpoint_every=1", "--set", "data.limit=24"]
SETS += ["--set", "backbone.width=8"]
TRAIN = ["train", str(children.TABLE), "--target", "p_np", "--method", "erm", *SETS, "--device", "cpu", "--resume"]
STUDY = ["study", "covariate", "--only", "ERM/motif-base", "--seeds", "2", *SETS, "--device", "cpu"]
TUNE = ["tune", "motif", "--method", "erm", "--trials", "2", *SETS, "--device", "cpu"]


def whole(folder):
    """Nothing that is there is damaged."""
    for path in folder.rglob("*.json"):
        if path.parent.name != "model" and not path.parent.name.startswith("epoch-"):
            json.loads(path.read_text())
    for path in folder.rglob("tensors.safetensors"):
        read_snapshot(path.parent)
    return True


@pytest.mark.parametrize("largest", some([3000, 20_000]))
def test_files_that_may_not_grow(largest, tmp_path, tally):
    cache, log = tmp_path / "cache", tmp_path / "log"
    finish(children.build, cache)
    words = [*TRAIN, "--out", str(tmp_path / "runs")]
    assert status(children.command, words, log, cache, largest) == 2
    assert "cannot write" in told(log)
    assert whole(tmp_path / "runs")
    finish(children.command, words, log, cache)
    finish(children.command, [*TRAIN, "--out", str(tmp_path / "alone")], log, cache)
    assert records(tmp_path / "runs") == records(tmp_path / "alone")
    assert not litter(tmp_path / "runs")
    tally("faults", "full disks")


@pytest.mark.parametrize("kilobytes", some([8, 24, 48, 100, 140, 180]))
def test_training_on_a_disk_that_fills(kilobytes, small_disk, tmp_path, tally):
    disk, cache, log = small_disk(kilobytes), tmp_path / "cache", tmp_path / "log"
    finish(children.build, cache)
    words = [*TRAIN, "--out", str(disk)]
    ended = status(children.command, words, log, cache)
    assert ended in (0, 2)
    assert ended == 0 or "No space left on device" in told(log)
    assert ended == 2 or kilobytes > 100
    assert whole(disk)
    small_disk(10_000, again=True)
    finish(children.command, words, log, cache)
    finish(children.command, [*TRAIN, "--out", str(tmp_path / "alone")], log, cache)
    assert records(disk) == records(tmp_path / "alone")
    assert not litter(disk)
    tally("faults", "full disks", int(ended == 2))


@pytest.mark.parametrize("kilobytes", some([40, 160]))
def test_a_study_on_a_disk_that_fills(motif, cache, kilobytes, small_disk, tmp_path, tally):
    disk, log = small_disk(kilobytes), tmp_path / "log"
    words = [*STUDY, "--out", str(disk)]
    assert status(children.command, words, log, cache.folder) == 2
    assert "No space left on device" in told(log)
    assert whole(disk)
    small_disk(10_000, again=True)
    finish(children.command, words, log, cache.folder)
    finish(children.command, [*STUDY, "--out", str(tmp_path / "alone")], log, cache.folder)
    assert len(records(disk)) == 2
    assert records(disk) == records(tmp_path / "alone")
    tally("faults", "full disks")


@pytest.mark.parametrize("kilobytes", some([12, 20, 120]))
def test_a_search_on_a_disk_that_fills(motif, cache, kilobytes, small_disk, tmp_path, tally):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
    disk, log = small_disk(kilobytes), tmp_path / "log"
    words = [*TUNE, "--out", str(disk)]
    ended = status(children.command, words, log, cache.folder)
    told(log)
    assert ended == 2 or kilobytes > 100
    small_disk(10_000, again=True)
    finish(children.command, words, log, cache.folder)
    (report,) = (json.loads(path.read_text()) for path in disk.glob("*/search.json"))
    assert report["finished"]
    tally("faults", "full disks", int(ended == 2))


@pytest.mark.parametrize("kilobytes", some([4, 40, 100]))
def test_preparing_data_on_a_disk_that_fills(kilobytes, small_disk, tmp_path, tally):
    disk, log = small_disk(kilobytes), tmp_path / "log"
    words = [*TRAIN, "--out", str(tmp_path / "runs")]
    assert status(children.command, words, log, disk) == 2
    assert "No space left on device" in told(log)
    assert not [path for path in disk.iterdir() if path.is_dir()]
    small_disk(10_000, again=True)
    finish(children.command, words, log, disk)
    assert len(records(tmp_path / "runs")) == 1
    tally("faults", "full disks")
