import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from outland.errors import OutlandError
from outland.training import RunRecord, RunSpec, prepare, run
from outland.training.run_folder import RunFolder

WORDS = ["data.limit=96", "backbone.width=8", "train.epochs=5", "train.batch_size=16"]


def spec(*more, method="aia", seed=1, **rest):
    return RunSpec.from_words("motif", method, [*WORDS, *more], seed=seed, **rest)


def comparable(record):
    plain = dict(vars(record))
    plain.pop("timing")
    return plain


def test_run_leaves_record_and_model(tmp_path, cache):
    record = run(spec(), tmp_path, cache=cache)
    folder = RunFolder(tmp_path, spec())
    again = RunRecord.read(folder.record_path)
    assert comparable(again) == json.loads(json.dumps(comparable(record)))
    assert record.selected == "ood_val+burn_in"
    assert (
        record.test_score
        == record.selection["ood_val+burn_in"]["test"]
        == record.curves[record.selection["ood_val+burn_in"]["epoch"]]["test"]["accuracy"]
    )
    assert record.parameters["total"] == sum(v for k, v in record.parameters.items() if k not in ("total", "inference"))
    assert record.platform["torch"] == torch.__version__
    assert not folder.checkpoints.newest()
    from outland.models import load_model
    from outland.training import evaluate

    method = load_model(folder.path).method
    assert set(record.masks["test"]) == {"rocauc", "precision_at_k"}
    _, splits = prepare(spec(), torch.device("cpu"), cache)

    assert evaluate(method, splits, 512)["test"]["accuracy"] == record.test_score


def test_finished_or_begun_runs_are_not_overwritten(tmp_path, cache):
    record = run(spec(), tmp_path, cache=cache)
    with pytest.raises(OutlandError, match=r"already finished .* --resume .* --force"):
        run(spec(), tmp_path, cache=cache)
    assert comparable(run(spec(), tmp_path, resume=True, cache=cache)) == json.loads(json.dumps(comparable(record)))
    assert comparable(run(spec(), tmp_path, force=True, cache=cache)) == comparable(record)


def test_a_run_stopped_between_its_record_and_its_checkpoints_end_is_tidied(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("outland.training.checkpoint.Checkpoints.clear", lambda self: None)
    run(spec(), tmp_path, cache=cache)
    monkeypatch.undo()
    left = RunFolder(tmp_path, spec()).path / "checkpoints"
    assert list(left.glob("epoch-*"))
    run(spec(), tmp_path, resume=True, cache=cache)
    assert not left.exists()


def test_run_killed_in_its_middle_ends_with_the_same_record(tmp_path, cache):
    expected = run(spec(), tmp_path / "whole", cache=cache)
    words = [word for setting in WORDS for word in ("--set", setting)]
    command = [sys.executable, "-m", "outland", "train", "motif", "--method", "aia", "--seed", "1", *words]
    command += ["--out", str(tmp_path / "killed"), "--device", "cpu"]
    environment = {**os.environ, "OUTLAND_CACHE": str(cache.folder), "OMP_NUM_THREADS": "1"}
    folder = RunFolder(tmp_path / "killed", spec())
    kills = 0
    for wanted in (1, 3):
        process = subprocess.Popen([*command, "--resume"], env=environment, stdout=subprocess.DEVNULL)
        while process.poll() is None:
            if (folder.path / "checkpoints" / f"epoch-{wanted:05d}").exists():
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        process.wait()
    assert kills == 2
    assert not folder.record_path.exists()
    done = subprocess.run([*command, "--resume"], env=environment, capture_output=True, text=True, check=True)
    assert "record.json" in done.stdout
    record = RunRecord.read(folder.record_path)
    ours, theirs = comparable(record), json.loads(json.dumps(comparable(expected)))
    assert ours == theirs


def test_two_processes_do_not_train_in_one_folder(tmp_path, cache):
    folder = RunFolder(tmp_path, spec())
    with folder.claimed(resume=False, force=False), pytest.raises(OutlandError, match="another process is working"):
        run(spec(), tmp_path, cache=cache)


def test_unwritable_out_is_said_before_training(tmp_path, cache, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("outland.training.runs.prepare", lambda *a: pytest.fail("went on to prepare"))
    with pytest.raises(OutlandError, match="cannot write to the folder"):
        run(spec(), tmp_path / "file", cache=cache)


def test_padded_run_equals_exact_run(tmp_path, cache):
    """Without dropout; to the rounding that another order of sums allows."""
    still = ["backbone.dropout=0", "train.epochs=2"]
    exact = run(spec(*still, method="erm"), tmp_path, cache=cache)
    padded = run(spec(*still, "train.layout=padded", method="erm"), tmp_path, cache=cache)
    for one, other in zip(exact.curves, padded.curves, strict=True):
        assert one["loss"]["risk.risk"] == pytest.approx(other["loss"]["risk.risk"], abs=1e-4)
