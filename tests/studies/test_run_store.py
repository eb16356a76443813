import json
import shutil
from dataclasses import replace

import pytest
from filelock import FileLock

from outland.errors import Busy, OutlandError
from outland.studies import find_study
from outland.studies.base import Measurement
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from outland.training import RunRecord
from tests.studies.cases import TINY, ablation_cells


def test_a_row_without_training_does_not_share_the_failures_of_training(motif, cache, tmp_path):
    study = replace(find_study("shift"), measure=lambda *rest: Measurement({"aug_train": 0.1, "aug_test": 0.2}))
    original, flag = study.cells(1, TINY, ["Original/motif-base", "FLAG/motif-base"])
    store, other = RunStore(study, tmp_path), RunStore(find_study("covariate"), tmp_path)
    for cell in (original, flag):
        other.save_failure(cell.specs[0], OutlandError("no memory"))
    assert [store.state(cell, cell.specs[0]) for cell in (original, flag)] == ["waiting", "failed"]
    assert run_study(study, [original], tmp_path, retry=True, device="cpu", cache=cache).states == {"done": 1}
    assert (store.run_folder(original.specs[0]).path / "failure.json").exists()  # that is not ours to forget
    record = store.run_folder(original.specs[0]).record_path
    record.write_text("damaged")
    assert run_study(study, [original], tmp_path, device="cpu", cache=cache).states == {"done": 1}
    assert record.read_text() == "damaged"  # nor to put aside
    store.save_failure(original.specs[0], OutlandError("no edges"), measuring=True)
    store.measurement_path(original.specs[0]).write_text('{"values": {"aug_train": "near"}}')
    assert run_study(study, [original], tmp_path, device="cpu", cache=cache).states == {"failed": 1}


def test_a_damaged_record_is_a_failure_and_can_be_made_again(motif, cache, tmp_path):
    study, cells = ablation_cells("ERM/motif-base")
    run_study(study, cells, tmp_path, device="cpu", cache=cache)
    path = RunStore(study, tmp_path).run_folder(cells[0].specs[0]).record_path
    whole = RunRecord.read(path)
    path.write_text(path.read_text()[:100])
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert "is not a run record" in outcome.failures[0][2]
    damaged = RunStore(study, tmp_path).run_folder(cells[0].specs[0]).checkpoints.folder / "epoch-00001"
    damaged.mkdir(parents=True)  # none is intact: the run starts over
    assert run_study(study, cells, tmp_path, retry=True, device="cpu", cache=cache).states == {"done": 1}
    assert RunRecord.read(path).curves == whole.curves


def test_a_run_that_another_process_holds_is_not_a_failure(motif, cache, tmp_path):
    study, cells = ablation_cells("ERM/motif-base", "AIA/motif-base")
    folder = RunStore(study, tmp_path).run_folder(cells[0].specs[0]).path
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert outcome.states == {"waiting": 1, "done": 1}
    store, busy = RunStore(study, tmp_path), Busy("another process is working in it")
    assert store.save_failure(cells[0].specs[0], busy) is None  # though it may be gone by now
    assert run_study(study, cells, tmp_path, device="cpu", cache=cache).states == {"done": 2}


def test_a_record_counts_until_the_run_that_is_trained_again_replaces_it(motif, cache, tmp_path, monkeypatch):
    study = replace(find_study("shift"), measure=lambda *rest: Measurement({"aug_train": 0.1, "aug_test": 0.2}))
    cells = study.cells(1, TINY, ["FLAG/motif-base"])
    cell, spec = cells[0], cells[0].specs[0]
    other, store, how = replace(study, measure=None), RunStore(study, tmp_path), {"device": "cpu", "cache": cache}
    run_study(other, cells, tmp_path, **how)
    folder = store.run_folder(spec)
    shutil.rmtree(folder.model_path)  # as after an import
    whole = folder.record_path.read_bytes()
    assert run_study(study, cells, tmp_path, **how).states == {"failed": 1}

    def stop(self):
        yield None
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("outland.training.runs.Training.steps", stop)
        with pytest.raises(KeyboardInterrupt):
            run_study(study, cells, tmp_path, retry=True, **how)
    assert folder.record_path.read_bytes() == whole
    assert [RunStore(one, tmp_path).state(cell, spec) for one in (other, study)] == ["done", "begun"]
    assert run_study(study, cells, tmp_path, **how).states == {"done": 1}  # it goes on without being asked again
    assert RunRecord.read(folder.record_path).curves == RunRecord.from_json(json.loads(whole)).curves
    assert folder.record_path.read_bytes() != whole  # the seconds are others
    assert sorted(path.name for path in folder.path.iterdir()) == [
        ".lock",
        "measured-shift.json",
        "model",
        "record.json",
        "spec.json",
    ]
