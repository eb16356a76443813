import threading

import pytest
import torch

from outland.errors import Busy, CannotWrite
from outland.storage.snapshots import Snapshot
from outland.training import RunSpec, checkpoint
from outland.training.checkpoint import Checkpoints
from outland.training.run_folder import RunFolder
from outland.training.runs import Run
from tests.training.cases import trainer


@pytest.fixture
def held_writer(monkeypatch):
    """Writing begins when this event is set."""
    release, write = threading.Event(), checkpoint.write_snapshot

    def held(*given):
        assert release.wait(60)
        write(*given)

    monkeypatch.setattr(checkpoint, "write_snapshot", held)
    yield release
    release.set()


@pytest.fixture
def full_disk(monkeypatch):
    def refuse(folder, snapshot):
        raise CannotWrite(f"{folder} cannot be written: no space left")

    monkeypatch.setattr(checkpoint, "write_snapshot", refuse)


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_resume_falls_back_to_the_previous_good_checkpoint(any_splits, tmp_path, file, damage, capsys):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    run.fit()
    newest = tmp_path / "epoch-00003" / file
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        content = content[:-30]
    else:
        content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    again = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    assert again.resume() == 2
    assert "looking for the one before" in " ".join(capsys.readouterr().err.split())
    again.fit()
    assert again.curves == run.curves


def test_checkpoints_keep_the_two_newest_and_none_intact_is_an_error(any_splits, tmp_path):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    run.fit()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-00002", "epoch-00003"]
    for path in tmp_path.glob("*/state.json"):
        path.write_text("{}")
    with pytest.raises(Exception, match=r"no checkpoint in .* is intact"):
        trainer(any_splits, checkpoints=Checkpoints(tmp_path)).resume()


@pytest.mark.parametrize(("seconds", "epochs"), [(0.0, [1, 2, 3]), (1e9, [])])
def test_by_default_checkpoints_are_written_by_the_clock(any_splits, tmp_path, monkeypatch, seconds, epochs):
    monkeypatch.setattr("outland.training.trainer.CHECKPOINT_SECONDS", seconds)
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path, keep=9), checkpoint_every=None)
    run.fit()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"epoch-{epoch:05d}" for epoch in epochs]


@pytest.mark.parametrize(("every", "epochs"), [(1, [1, 2, 3]), (2, [2]), (1000, [])])
def test_or_after_so_many_epochs(any_splits, tmp_path, every, epochs):
    trainer(any_splits, checkpoints=Checkpoints(tmp_path, keep=9), checkpoint_every=every).fit()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"epoch-{epoch:05d}" for epoch in epochs]


def test_what_is_written_in_the_background_is_what_was_there_at_the_call(tmp_path, held_writer):
    checkpoints, weights, curves, seconds = Checkpoints(tmp_path), torch.ones(3), [{"epoch": 0}], [0.5]
    checkpoints.save_in_background(1, Snapshot({"w": weights}, {"curves": curves, "seconds": seconds, "device": "cpu"}))
    weights.fill_(9)
    curves.append({"epoch": 1})
    seconds.append(0.7)
    assert checkpoints.newest() is None  # it has not been written yet
    held_writer.set()
    checkpoints.wait()
    found = checkpoints.latest()
    assert found.tensors["w"].tolist() == [1, 1, 1]
    assert found.values == {"curves": [{"epoch": 0}], "seconds": [0.5], "device": "cpu"}


def test_training_goes_on_from_what_was_written_in_the_background(any_splits, tmp_path, held_writer):
    """Steps of the next epoch, while a write is held up, do not get into it."""
    alone = trainer(any_splits)
    alone.fit()
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path), checkpoint_every=2)
    steps = run.steps()
    while not run.checkpoints._write:
        next(steps)
    next(steps)
    held_writer.set()
    steps.close()
    again = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    assert again.resume() == 2
    again.fit()
    assert again.curves == alone.curves
    assert all(torch.equal(tensor, alone.best.weights[name]) for name, tensor in again.best.weights.items())


def test_an_error_of_the_writer_is_raised_by_the_next_call(tmp_path, full_disk):
    checkpoints, snapshot = Checkpoints(tmp_path), Snapshot({}, {})
    for following in (checkpoints.wait, lambda: checkpoints.save_in_background(2, snapshot)):
        checkpoints.save_in_background(1, snapshot)
        with pytest.raises(CannotWrite, match="epoch-00001 cannot be written"):
            following()
        checkpoints.wait()  # it is told once


@pytest.mark.parametrize("every", [1, 3])
def test_training_ends_where_a_checkpoint_cannot_be_written(any_splits, tmp_path, full_disk, every):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path), checkpoint_every=every)
    with pytest.raises(CannotWrite, match=f"epoch-0000{every} cannot be written"):
        run.fit()
    assert len(run.curves) == min(every + 1, 3)


def test_a_folder_is_claimed_until_its_checkpoint_is_written(motif, tmp_path, held_writer):
    words = ["data.limit=24", "backbone.width=8", "train.epochs=9", "train.checkpoint_every=1"]
    spec = RunSpec.from_words("motif", "erm", words)
    run = Run(spec, tmp_path, torch.device("cpu"))
    steps = run.steps(lambda: motif.limit(24, 0))
    while not (run.folder.checkpoints._write):
        next(steps)
    closing = threading.Thread(target=steps.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()  # it waits for the writer
    with pytest.raises(Busy), RunFolder(tmp_path, spec).claimed(resume=True, force=False):
        pass
    held_writer.set()
    closing.join(60)
    assert [path.name for path in run.folder.checkpoints._all()] == ["epoch-00001"]
    with RunFolder(tmp_path, spec).claimed(resume=True, force=False):
        pass
