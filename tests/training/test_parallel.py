import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from outland.errors import OutlandError
from outland.graphs import Batches
from outland.training import RunRecord, RunSpec, load_model, parallel, run
from outland.training.callbacks import Callback
from outland.training.parallel import PartBatches
from tests.faults.children import as_rank, command
from tests.faults.harness import begin
from tests.training.two_processes import by_ranks, spec_of, train

METHODS = ("erm", "aia", "vrex", "irm", "groupdro")


def _as_ranks(work, *given) -> list[int]:
    """How two processes end that know each other, as `torchrun` would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [begin(as_rank, rank, port, work, *given) for rank in (0, 1)]
    for one in both:
        one.join(120)
    return [one.exitcode for one in both]


def _two_processes(*words: str, **environment: str):
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    around = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    root = Path(__file__).parents[2]
    return subprocess.run(
        [*start, *words], env=around, capture_output=True, text=True, timeout=150, cwd=root, check=False
    )


@pytest.fixture(scope="module")
def by_two(motif, cache, tmp_path_factory):
    """Weights after 20 steps, of each method and process."""
    out = tmp_path_factory.mktemp("two")
    assert _as_ranks(by_ranks, cache.folder, out, METHODS) == [0, 0]
    return {path.stem: load_file(path) for path in out.glob("*.safetensors")}


@pytest.mark.parametrize("method", METHODS)
def test_two_processes_take_the_steps_of_one(method, by_two, cache):
    alone = train(spec_of(method), cache.folder, parallel=False)
    for place in (0, 1):
        found = by_two[f"{method}-{place}"]
        assert found.keys() == alone.keys()
        apart = {name: float((found[name].double() - alone[name].double()).abs().max()) for name in alone}
        assert max(apart.values()) < 1e-8, max(apart, key=apart.get)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("balance", [False, True])
def test_parts_are_the_batches_of_one_process(motif, monkeypatch, count, balance):
    index = motif["train"][:100]
    given = (motif.graphs, index, 24)
    whole = Batches(*given, shuffle=True, balance=balance).plan(3)
    monkeypatch.setattr(parallel, "ranks", lambda: count)
    plans = []
    for place in range(count):
        monkeypatch.setattr(parallel, "rank", lambda place=place: place)
        batches = PartBatches(*given, shuffle=True, balance=balance)
        plans.append(batches.plan(3))
        assert sum(len(batch.y) for batch in batches.epoch(3)) == sum(plans[-1].graphs)
    for step, row in enumerate(whole.index):
        parts = [plan.index[step][: plan.graphs[step]] for plan in plans]
        assert torch.cat(parts).tolist() == row[row >= 0].tolist()
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        if balance:
            for part in parts:
                counts = motif.graphs.environment[part].bincount(minlength=3)
                assert counts.max() - counts.min() <= 1


def test_batches_must_be_divisible(motif, monkeypatch):
    monkeypatch.setattr(parallel, "ranks", lambda: 3)
    with pytest.raises(OutlandError, match=r"train.batch_size \(32\) must be a multiple of the 3 processes"):
        PartBatches(motif.graphs, motif["train"], 32)
    left = PartBatches(motif.graphs, motif["train"][:26], 24)
    assert len(left) == 1  # two graphs are too few for three processes
    assert left.plan(0).graphs == [8]


def test_a_run_of_two_processes_goes_on_and_is_written_once(motif, cache, tmp_path):
    words = ["train", "motif", "--method", "erm", "--device", "cpu", "--out", str(tmp_path), "--sync-norm", "--resume"]
    words += ["--set", "train.epochs=3", "--set", "data.limit=40", "--set", "backbone.width=8"]
    words += ["--set", "backbone.dropout=0", "--set", "train.batch_size=16"]
    spec = RunSpec.from_words("motif", "erm", [word for word in words if "=" in word])
    _begin(spec, tmp_path, cache)
    done = _two_processes("-m", "outland", *words, OUTLAND_CACHE=str(cache.folder))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("record:") == 1
    record = RunRecord.read(tmp_path / spec.slug / "record.json")
    assert record.platform["processes"] == "2"
    assert record.platform["batch norm"] == "synchronised"
    alone = run(spec, tmp_path / "alone", device="cpu", cache=cache)
    assert record.curves[0] == alone.curves[0]  # what one process had done before
    ours, theirs = (row.curves[2]["loss"]["risk.risk"] for row in (record, alone))
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert load_model(tmp_path / spec.slug).parameter_counts() == record.parameters

    plain = [word for word in words if word != "--resume"]
    assert _as_ranks(command, plain, tmp_path / "log", cache.folder) == [2, 0]
    assert "was already finished" in (tmp_path / "log").read_text()


class _Stop(Callback):
    def epoch(self, row, metric):
        if row["epoch"] == 1:
            raise KeyboardInterrupt


def _begin(spec, out, cache):
    """One epoch of a run, by one process."""
    with pytest.raises(KeyboardInterrupt):
        run(spec, out, device="cpu", cache=cache, callback=_Stop())
