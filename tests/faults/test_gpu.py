"""A GPU's faults: no memory left, a run killed while it captures, several processes on one device.

They need neither RDKit nor Optuna: `python3 -m pytest -m faults tests/faults/test_gpu.py`, on a machine with a GPU.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from outland.errors import OutlandError
from outland.training import RunSpec, run, run_fleet
from outland.training.run_folder import RunFolder

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here: faults of a GPU need one"),
]
SMALL = {"data": {"limit": 400}, "backbone": {"width": 64, "layers": 3}, "train": {"epochs": 8, "checkpoint_every": 1}}


def spec_of(seed: int) -> RunSpec:
    """A run of a few seconds that captures its steps, and has a checkpoint after each epoch."""
    return RunSpec.make("motif", "aia", "base", seed=seed, changes=SMALL)


@pytest.fixture
def memory():
    """Limit the device's memory to so many bytes: `memory(1 << 30)`; None lifts the limit."""
    total = torch.cuda.get_device_properties(0).total_memory

    def limit(most: float | None) -> None:
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0 if most is None else min(1.0, most / total))

    yield limit
    limit(None)


@pytest.fixture(scope="module")
def one_run(motif, cache, tmp_path_factory) -> float:
    """Bytes that the device lends to one run."""
    folder = tmp_path_factory.mktemp("one")
    for seed in (1, 2):  # the first compiles kernels, which takes memory of its own
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        run(spec_of(seed), folder, device="cuda", cache=cache)
    return float(torch.cuda.max_memory_reserved())


@pytest.mark.parametrize("room", [2.5, 1.6])
def test_a_fleet_that_the_device_has_no_memory_for(room, one_run, memory, cache, tmp_path, capsys, tally):
    """Under less memory than six runs need, fewer are active, all end, and none is a failure."""
    specs = [spec_of(seed) for seed in range(1, 7)]
    memory(room * one_run)
    fleet = run_fleet(specs, tmp_path, width=6, device="cuda", cache=cache)
    memory(None)
    assert not fleet.failures, fleet.failures
    assert sorted(fleet.records) == list(range(6))
    assert "memory is full" in " ".join(capsys.readouterr().err.split())
    assert torch.cuda.memory_reserved() < 3 * one_run
    tally("faults", "fleets without memory", len(fleet.records))


def test_a_run_that_there_is_no_memory_for_gets_a_sentence(one_run, memory, cache, tmp_path, tally):
    spec = spec_of(1)
    memory(0.3 * one_run)
    fleet = run_fleet([spec], tmp_path, width=1, device="cuda", cache=cache)
    memory(None)
    assert isinstance(fleet.failures[0], OutlandError)
    assert "has not enough memory for this run alone" in str(fleet.failures[0])
    assert not RunFolder(tmp_path, spec).record_path.exists()
    assert run(spec, tmp_path, resume=True, device="cuda", cache=cache).selection  # with its memory back, it ends
    tally("faults", "fleets without memory")


CHILD = """
from outland.graphs import Cache
from outland.training import RunSpec, run
for seed in {seeds}:
    spec = RunSpec.make("motif", "aia", "base", seed=seed, changes={changes})
    run(spec, {out!r}, resume=True, device="cuda", cache=Cache({cache!r}))
"""
KILL = """
import os, signal, torch
from outland.training.checkpoint import Checkpoints
def dies(owner, name, count):
    kept, calls = getattr(owner, name), []
    def dying(*given, **named):
        result = kept(*given, **named)
        calls.append(0)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, dying)
dies({owner}, {name!r}, {count})
"""
IN_A_CAPTURE = {"owner": "torch.cuda.CUDAGraph", "name": "capture_begin"}
AFTER_A_CHECKPOINT = {"owner": "Checkpoints", "name": "save"}


def begin(out: Path, cache: Path, *seeds: int, kill: dict | None = None, count: int = 0) -> subprocess.Popen:
    """Runs in a process of their own, which kills itself at the `count`-th call of what `kill` names."""
    patch = "" if kill is None else KILL.format(**kill, count=count)
    code = CHILD.format(seeds=seeds, changes=SMALL, out=str(out), cache=str(cache))
    return subprocess.Popen([sys.executable, "-c", patch + code], stderr=subprocess.PIPE, text=True, env={**os.environ})


def ended(child: subprocess.Popen) -> int:
    """How a child ended; its last words where it was neither well nor killed."""
    said = child.communicate(timeout=300)[1]
    assert child.returncode in (0, -signal.SIGKILL), said[-3000:]
    return child.returncode


def records(out: Path) -> dict:
    """The records in a folder of runs, but for what differs between equal runs."""
    found = {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/record.json")}
    return {
        name: {key: value for key, value in plain.items() if key not in ("timing", "platform")}
        for name, plain in found.items()
    }


@pytest.fixture(scope="module")
def alone(motif, cache, tmp_path_factory) -> dict:
    """The records of two runs that nobody disturbs."""
    out = tmp_path_factory.mktemp("alone")
    assert ended(begin(out, cache.folder, 1, 2)) == 0
    return records(out)


def test_a_run_killed_in_a_capture_goes_on_to_the_same_record(alone, cache, tmp_path, tally):
    """In a capture at its start, after a checkpoint, and in a capture of the run that goes on from there."""
    moments = [(IN_A_CAPTURE, 2), (AFTER_A_CHECKPOINT, 2), (IN_A_CAPTURE, 3)]
    for kill, count in moments:
        assert ended(begin(tmp_path, cache.folder, 1, kill=kill, count=count)) == -signal.SIGKILL
        assert not records(tmp_path)
    assert list(tmp_path.glob("*/checkpoints/epoch-*"))
    assert ended(begin(tmp_path, cache.folder, 1)) == 0
    ours = records(tmp_path)
    assert ours == {name: alone[name] for name in ours}
    assert len(ours) == 1
    tally("kills", "runs on a GPU", len(moments))


def test_several_processes_on_one_device(alone, cache, tmp_path, tally):
    """Two give what they give alone, though a third is killed beside them."""
    both = [begin(tmp_path, cache.folder, seed) for seed in (1, 2)]
    third = begin(tmp_path, cache.folder, 3, kill=AFTER_A_CHECKPOINT, count=3)
    assert [ended(child) for child in (*both, third)] == [0, 0, -signal.SIGKILL]
    assert records(tmp_path) == alone
    tally("faults", "processes on one GPU", 3)
