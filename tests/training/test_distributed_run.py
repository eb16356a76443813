import os
import subprocess
import sys
from pathlib import Path

import pytest

from outland.models import load_model
from outland.training import RunRecord, RunSpec, run
from tests.faults.children import command
from tests.training.cases import StopsAfter
from tests.training.two_processes import as_ranks


def torchrun(*words: str, **environment: str):
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    around = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    root = Path(__file__).parents[2]
    return subprocess.run(
        [*start, *words], env=around, capture_output=True, text=True, timeout=150, cwd=root, check=False
    )


def test_a_run_of_two_processes_goes_on_and_is_written_once(motif, cache, tmp_path):
    words = ["train", "motif", "--method", "erm", "--device", "cpu", "--out", str(tmp_path), "--sync-norm", "--resume"]
    words += ["--set", "train.epochs=3", "--set", "data.limit=40", "--set", "backbone.width=8"]
    words += ["--set", "backbone.dropout=0", "--set", "train.batch_size=16", "--set", "train.checkpoint_every=1"]
    spec = RunSpec.from_words("motif", "erm", [word for word in words if "=" in word])
    _begin(spec, tmp_path, cache)
    done = torchrun("-m", "outland", *words, OUTLAND_CACHE=str(cache.folder))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("record:") == 1
    record = RunRecord.read(tmp_path / spec.slug / "record.json")
    assert record.platform["processes"] == "2"
    assert record.platform["batch norm"] == "synchronised"
    alone = run(spec, tmp_path / "alone", device="cpu", cache=cache)
    assert record.curves[0] == alone.curves[0]  # what one process had done before
    ours, theirs = (row.curves[2]["loss"]["risk.risk"] for row in (record, alone))
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert load_model(tmp_path / spec.slug).method.parameter_counts() == record.parameters

    plain = [word for word in words if word != "--resume"]
    assert as_ranks(command, plain, tmp_path / "log", cache.folder) == [2, 0]
    assert "was already finished" in (tmp_path / "log").read_text()


def _begin(spec, out, cache):
    """One epoch of a run, by one process."""
    with pytest.raises(KeyboardInterrupt):
        run(spec, out, device="cpu", cache=cache, callback=StopsAfter(1))
