import re
import time

import pytest

from outland.cli.options import parse_duration
from outland.errors import OutlandError
from outland.storage.snapshots import read_snapshot
from outland.training import RunRecord, RunSpec, run
from outland.training.run_folder import RunFolder
from tests.faults.children import command
from tests.faults.harness import begin

WORDS = ["data.limit=48", "backbone.width=8", "train.epochs=20", "train.batch_size=16", "train.checkpoint_every=1000"]


@pytest.mark.parametrize(
    ("words", "seconds"),
    [("90s", 90.0), ("25m", 1500.0), ("2h", 7200.0), ("0.5h", 1800.0), (".5m", 30.0), (None, None)],
)
def test_durations(words, seconds):
    assert parse_duration(words) == seconds


@pytest.mark.parametrize("words", ["", "s", "90", "2 h", "2d", "-3m", "0s", "1.2.3h", "infs", "nanm", "1e3s", "²s"])
def test_what_is_no_duration_gets_a_sentence(words):
    with pytest.raises(OutlandError, match=f"'{re.escape(words)}' is not a duration: write it as 90s, 25m or 2h"):
        parse_duration(words)


def stopped(words, begun, log, cache):
    """Status and words of a command that gets SIGTERM in a process of its own, once it has begun and a while later."""
    process = begin(command, [*map(str, words), "--device", "cpu"], log, cache.folder, daemon=False)
    until = time.monotonic() + 150
    while not begun():
        assert time.monotonic() < until
        assert process.is_alive(), log.read_text()
        time.sleep(0.01)
    time.sleep(0.3)
    process.terminate()
    process.join(60)
    return process.exitcode, " ".join(log.read_text().split())


def test_a_run_that_is_asked_to_stop_ends_its_epoch_and_goes_on_to_the_same_bytes(motif, cache, tmp_path):
    sets = [part for word in WORDS for part in ("--set", word)]
    words = ["train", "motif", "--method", "aia", "--seed", "1", *sets, "--out", tmp_path / "stopped"]
    log = tmp_path / "log"
    status, said = stopped(words, lambda: log.exists() and "epoch 0" in log.read_text(), log, cache)
    assert status == 143, said
    told = re.search(r"Stopped after epoch (\d+), with a checkpoint\. The same command with --resume goes on", said)
    assert told, said
    assert "Traceback" not in said
    spec = RunSpec.from_words("motif", "aia", WORDS, seed=1)
    folder, done = RunFolder(tmp_path / "stopped", spec), int(told[1]) + 1
    assert 0 < done < 20
    assert [path.name for path in folder.checkpoints.folder.iterdir()] == [f"epoch-{done:05d}"]
    snapshot = read_snapshot(folder.checkpoints.newest())
    assert len(snapshot.values["curves"]) == len(snapshot.values["seconds"]) == done
    assert not folder.record_path.exists()

    resumed = run(spec, tmp_path / "stopped", resume=True, device="cpu", cache=cache)
    whole = run(spec, tmp_path / "whole", device="cpu", cache=cache)
    ours, theirs = ({**vars(record), "timing": None} for record in (resumed, whole))
    assert ours == theirs
    assert len(RunRecord.read(folder.record_path).timing["epochs"]) == 20
    ours, theirs = (
        (RunFolder(tmp_path / name, spec).model_path / "tensors.safetensors").read_bytes()
        for name in ("stopped", "whole")
    )
    assert ours == theirs


@pytest.mark.parametrize(
    "words",
    [
        ["train", "motif", "--method", "erm", "--seeds", "3", "--set", "train.epochs=400"],
        ["study", "ablation", "--only", "ERM/motif-base", "--seeds", "3", "--epochs", "400"],
        ["tune", "motif", "--method", "erm", "--trials", "3", "--epochs", "400"],
        ["study", "ablation", "--only", "ERM/motif-base", "--seeds", "3", "--epochs", "400", "--workers", "2"],
        ["tune", "motif", "--method", "erm", "--trials", "3", "--epochs", "400", "--workers", "2"],
    ],
    ids=lambda words: f"{words[0]}-workers" if "--workers" in words else words[0],
)
def test_several_runs_that_are_asked_to_stop_say_how_to_go_on(words, motif, cache, tmp_path):
    """Nothing is begun afterwards, and what was under way has a checkpoint, and is no failure."""
    if words[0] == "tune":
        pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
    small = ["--set", "data.limit=48", "--set", "backbone.width=8", "--out", tmp_path]
    status, said = stopped([*words, *small], lambda: list(tmp_path.rglob("spec.json")), tmp_path / "log", cache)
    assert status == 143, said
    assert "The same command" in said
    assert "Traceback" not in said
    assert not list(tmp_path.rglob("failure.json"))
    begun, done = list(tmp_path.rglob("spec.json")), list(tmp_path.rglob("record.json"))
    assert len(begun) < 3
    assert len(done) < len(begun)
    assert len(list(tmp_path.rglob("epoch-*"))) == len(begun) - len(done)
