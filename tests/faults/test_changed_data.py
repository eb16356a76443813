"""Data that change on disk while they are read, and records and measurements that are copied from other runs."""

import json
import os
import shutil
import threading
from pathlib import Path

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Cache
from outland.storage import tensors
from outland.storage.files import checksum
from outland.studies import find_study
from outland.studies.base import Measurement
from outland.studies.results import Results
from outland.studies.run_store import RunStore
from outland.training import RunSpec, run
from outland.training.run_folder import RunFolder
from tests.faults.harness import status, told
from tests.faults.test_strangers import checkpointed

pytestmark = pytest.mark.faults
TINY = {"train": {"epochs": 2, "checkpoint_every": 1}, "data": {"limit": 24}, "backbone": {"width": 8, "layers": 2}}


@pytest.mark.parametrize("mapped", [False, True])
def test_a_cache_entry_changed_while_a_run_reads_it(mapped, motif, cache, tmp_path, monkeypatch, tally):
    """Small ones are read once; large ones are looked at again before the record is written."""
    from outland.training.callbacks import Callback

    own = Cache(shutil.copytree(cache.folder, tmp_path / "cache"))
    spec = RunSpec.make("motif", "erm", changes=TINY)
    undisturbed = run(spec, tmp_path / "calm", device="cpu", cache=own)
    if mapped:
        monkeypatch.setattr(tensors, "IN_MEMORY", 0)

    class Overwrite(Callback):
        def for_run(self, spec):
            return self

        def on_epoch_end(self, row, metric):
            (path,) = (entry / "tensors.safetensors" for entry in own.loaded if entry.name.startswith("motif"))
            with path.open("r+b") as stream:
                size = stream.seek(0, 2)
                stream.seek(size // 2)
                stream.write(bytes(size // 4))
                if not mapped:
                    stream.truncate(size // 3)

    def disturbed():
        return run(spec, tmp_path / "runs", device="cpu", cache=own, callback=Overwrite())

    if mapped:
        with pytest.raises(OutlandError, match="was changed while it was in use"):
            disturbed()
        assert not RunFolder(tmp_path / "runs", spec).record_path.exists()
    else:
        same = disturbed()
        assert same.model_dump(exclude={"timing"}) == undisturbed.model_dump(exclude={"timing"})
    tally("faults", "cache entries changed under a run")


def cut_short(folder: Path, log: Path, how: str) -> None:
    """Map a file, let somebody cut it short, and read on."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
    path, tensors.IN_MEMORY = folder / "tensors.safetensors", 0
    tensors.write_tensors(path, {"a": torch.arange(2_000_000)})
    a = tensors.read_tensors(path, checksum(path), 1 << 40)["a"]
    assert int(a.sum()) == 1_999_999_000_000
    os.truncate(path, 1000)
    if how == "another's":
        tensors._mapped.clear()
    if how == "a thread":
        thread = threading.Thread(target=a.sum)
        thread.start()
        thread.join()
    torch.set_num_threads(4 if how == "several threads" else 1)
    (a * 2).sum()


@pytest.mark.parametrize("how", ["main", "a thread", "several threads", "another's"])
def test_a_mapped_file_that_is_cut_short_ends_in_a_sentence(how, tmp_path, tally):
    """A bus error that is not ours stays one."""
    ended = status(cut_short, tmp_path, tmp_path / "log", how)
    if how == "another's":
        assert ended == -7
        return
    assert ended == 2
    assert "tensors.safetensors was cut short while it was in use: start again" in told(tmp_path / "log")
    tally("faults", "cache entries changed under a run")


def test_a_record_counts_for_its_own_run_only(motif, cache, tmp_path, tally):
    from outland.studies.runner import run_study

    study = find_study("covariate")
    words = ["train.epochs=1", "data.limit=24", "backbone.width=8"]
    cells = study.cells(3, words, ["ERM/motif-base"])
    run_study(study, study.cells(1, words, ["ERM/motif-base"]), tmp_path, device="cpu", cache=cache)
    first, *others = [RunStore(study, tmp_path).run_folder(spec) for spec in cells[0].specs]
    plain = json.loads(first.record_path.read_text())
    for number, folder in enumerate(others):
        folder.path.mkdir()
        named = plain if number else {**plain, "key": folder.spec.key}  # by somebody who has read the first error
        folder.record_path.write_text(json.dumps(named))
    results = Results.read(study, cells, tmp_path, words)
    assert [len(records) for records in results.records.values()] == [1]
    assert len(results.problems) == 2
    assert all("record of another run" in problem for problem in results.problems)
    with pytest.raises(OutlandError, match="record of another run"):
        run(cells[0].specs[1], tmp_path / "runs", resume=True, device="cpu", cache=cache)
    assert run_study(study, cells, tmp_path, device="cpu", cache=cache).states == {"done": 1, "failed": 2}
    tally("inputs", "copied records", 2)


def test_a_measurement_counts_for_its_own_run_only(tmp_path, tally):
    study = find_study("shift")
    cell = next(cell for cell in study.cells(3) if len(cell.specs) == 3)
    store, (first, *others) = RunStore(study, tmp_path), cell.specs
    store.save_measurement(first, Measurement({"aug_train": 1.0, "aug_test": 2.0}))
    assert store.measurement(first).values["aug_test"] == 2.0
    plain = json.loads(store.measurement_path(first).read_text())
    for spec in others:
        store.measurement_path(spec).parent.mkdir(parents=True)
        shutil.copy(store.measurement_path(first), store.measurement_path(spec))
        with pytest.raises(OutlandError, match="measurement of another run"):
            store.measurement(spec)
    results = Results.read(study, [cell], tmp_path)
    assert [list(runs) for runs in results.measurements.values()] == [[0]]
    assert len(results.problems) == 2
    for wrong in ({"values": plain["values"]}, [], 7, None, {**plain, "values": {"a": "x"}}, {**plain, "more": 1}):
        store.measurement_path(first).write_text(json.dumps(wrong))
        with pytest.raises(OutlandError, match="is not a measurement"):
            store.measurement(first)
    tally("inputs", "copied records", 2 + 6)


@pytest.mark.parametrize("name", ["checkpoints", "model"])
def test_a_link_put_in_place_between_a_check_and_a_deletion(name, motif, cache, tmp_path, monkeypatch, tally):
    """`--force` deletes what is in a run's folder: not what a link leads to that is there a moment later."""
    spec, folder = checkpointed(tmp_path / "runs", cache)
    outside, kept = tmp_path / "outside", shutil.rmtree
    for number in range(3):
        (outside / f"epoch-0000{number}").mkdir(parents=True)
    (outside / "state.json").write_text("mine")
    before, swapped = sorted(outside.rglob("*")), []

    def racing(path, *rest, **named):
        if Path(path) == folder.path / name and not swapped:
            swapped.append(path)
            kept(path, ignore_errors=True)
            Path(path).symlink_to(outside)
        kept(path, *rest, **named)

    monkeypatch.setattr(shutil, "rmtree", racing)
    with pytest.raises(OutlandError, match=r"symbolic link|is not a model folder|exists"):
        run(spec, tmp_path / "runs", device="cpu", cache=cache, force=True)
    assert swapped
    assert sorted(outside.rglob("*")) == before
    assert (outside / "state.json").read_text() == "mine"
    tally("faults", "links inside runs")
