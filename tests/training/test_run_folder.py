"""The folder of one run."""

import json

import pytest

from outland.errors import OutlandError
from outland.models import load_model
from outland.training import RunRecord, RunSpec, run
from outland.training.run_folder import RunFolder

WORDS = ["data.limit=96", "backbone.width=8", "train.epochs=5", "train.batch_size=16"]


def spec(*more):
    return RunSpec.from_words("motif", "aia", [*WORDS, *more], seed=1)


def comparable(record):
    plain = dict(vars(record))
    plain.pop("timing")
    return plain


def test_finished_or_begun_runs_are_not_overwritten(tmp_path, cache):
    record = run(spec(), tmp_path, cache=cache)
    with pytest.raises(OutlandError, match=r"already finished .* --resume .* --force"):
        run(spec(), tmp_path, cache=cache)
    assert comparable(run(spec(), tmp_path, resume=True, cache=cache)) == json.loads(json.dumps(comparable(record)))
    assert comparable(run(spec(), tmp_path, force=True, cache=cache)) == comparable(record)


def test_a_run_stopped_between_its_record_and_its_checkpoints_end_is_tidied(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("outland.training.checkpoint.Checkpoints.clear", lambda self: None)
    run(spec("train.checkpoint_every=1"), tmp_path, cache=cache)
    monkeypatch.undo()
    left = RunFolder(tmp_path, spec()).path / "checkpoints"
    assert list(left.glob("epoch-*"))
    run(spec(), tmp_path, resume=True, cache=cache)
    assert not left.exists()


def test_two_processes_do_not_train_in_one_folder(tmp_path, cache):
    folder = RunFolder(tmp_path, spec())
    with folder.claimed(resume=False, force=False), pytest.raises(OutlandError, match="another process is working"):
        run(spec(), tmp_path, cache=cache)


def test_unwritable_out_is_said_before_training(tmp_path, cache, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("outland.training.runs.load_splits", lambda *_: pytest.fail("went on to load"))
    with pytest.raises(OutlandError, match="cannot write to the folder"):
        run(spec(), tmp_path / "file", cache=cache)


def test_the_folder_holds_the_spec_and_is_no_model_before_it_is_done(tmp_path, cache):
    folder = RunFolder(tmp_path, spec())
    with folder.claimed(resume=False, force=False):
        assert RunSpec.from_json(json.loads((folder.path / "spec.json").read_text())) == spec()
        with pytest.raises(OutlandError, match=r"the run in .* is not finished: go on with it by `outland train"):
            load_model(folder.path)
    record = run(spec(), tmp_path, cache=cache)
    assert sorted(path.name for path in folder.path.iterdir()) == [".lock", "model", "record.json", "spec.json"]
    assert RunRecord.read(folder.record_path).key == record.key == spec().key
    assert load_model(folder.path).spec == load_model(folder.path / "model").spec == spec()


def test_what_an_earlier_try_left_of_the_model_is_replaced(tmp_path, cache):
    folder = RunFolder(tmp_path, spec())
    (folder.path / "model").mkdir(parents=True)
    (folder.path / "model" / "notes.txt").write_text("half a model")
    run(spec(), tmp_path, cache=cache)
    assert sorted(path.name for path in (folder.path / "model").iterdir()) == [
        "README.md",
        "state.json",
        "tensors.safetensors",
    ]
