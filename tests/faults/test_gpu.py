"""A GPU's faults: no memory left, a run killed while it captures, two processes on one device."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from outland.training import RunSpec, run, run_fleet
from outland.training.run_folder import RunFolder

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here: faults of a GPU need one"),
]
WIDE = {"data": {"limit": 2000}, "backbone": {"width": 300, "layers": 4}, "train": {"epochs": 4, "batch_size": 512}}
SMALL = {"data": {"limit": 200}, "backbone": {"width": 64, "layers": 3}, "train": {"epochs": 12, "checkpoint_every": 1}}


def plain(record):
    """What equal runs have in common."""
    return record.model_dump(exclude={"timing", "platform"})


def test_a_fleet_that_the_device_has_no_memory_for(motif, cache, tmp_path, tally):
    """Under less and less memory fewer runs are active, all of them end, and the device's memory comes back."""
    specs = [RunSpec.make("motif", "aia", "base", seed=seed, changes=WIDE) for seed in range(6)]
    torch.cuda.empty_cache()
    whole = run_fleet(specs[:1], tmp_path / "alone", width=1, device="cuda", cache=cache)
    most, total = torch.cuda.max_memory_reserved(), torch.cuda.get_device_properties(0).total_memory
    ended = 0
    for room in (2.5, 1.6):  # runs that fit at a time
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1.0, room * most / total))
        try:
            fleet = run_fleet(specs, tmp_path / str(room), width=6, device="cuda", cache=cache)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        assert not fleet.failures, fleet.failures
        assert sorted(fleet.records) == list(range(6))
        assert plain(fleet.records[0])["selection"].keys() == plain(whole.records[0])["selection"].keys()
        ended += len(fleet.records)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < 1 << 30
    tally("faults", "GPUs without memory", ended)


def test_a_run_that_no_memory_is_enough_for_gets_a_sentence(motif, cache, tmp_path, tally):
    from outland.errors import OutlandError

    spec = RunSpec.make("motif", "aia", "base", changes=WIDE)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (64 << 20) / total))
    try:
        fleet = run_fleet([spec], tmp_path, width=1, device="cuda", cache=cache)
        assert len(fleet.failures) == 1
        assert not RunFolder(tmp_path, spec).record_path.exists()
    except (OutlandError, torch.OutOfMemoryError):
        pass  # a sentence, at the end of the command
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert run(spec, tmp_path, resume=True, device="cuda", cache=cache).selection
    tally("faults", "GPUs without memory")


WORDS = ["train", "motif", "--method", "aia", "--device", "cuda", "--resume"]
WORDS += [word for group, values in SMALL.items() for n, v in values.items() for word in ("--set", f"{group}.{n}={v}")]


def started(out: Path, cache: Path, *more: str, patch: str = "") -> subprocess.Popen:
    """A command in a process of its own; `patch` is executed before it."""
    code = f"{patch}\nimport sys, outland.cli\nsys.argv = ['outland', *{[*WORDS, *more, '--out', str(out)]!r}]\n"
    environment = {**os.environ, "OUTLAND_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}outland.cli.main()"], env=environment, stderr=subprocess.PIPE, text=True
    )


KILL = """
import os, signal, torch
begin, count = torch.cuda.CUDAGraph.capture_begin, 0
def dying(self, *given, **named):
    global count
    begin(self, *given, **named)
    count += 1
    if count == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
torch.cuda.CUDAGraph.capture_begin = dying
"""


def records(out: Path) -> list:
    """The records in a folder of runs, but for what differs between equal runs."""
    found = [json.loads(path.read_text()) for path in sorted(out.glob("*/record.json"))]
    return [{name: value for name, value in plain.items() if name not in ("timing", "platform")} for plain in found]


def test_a_run_killed_in_a_capture_goes_on(motif, cache, tmp_path, tally):
    calm = started(tmp_path / "calm", cache.folder)
    assert calm.wait(300) == 0, calm.stderr.read()
    kills = 0
    for step in (1, 2, 3):
        child = started(tmp_path / "killed", cache.folder, patch=KILL.format(step=step))
        child.wait(300)
        kills += child.returncode == -signal.SIGKILL
    last = started(tmp_path / "killed", cache.folder)
    assert last.wait(300) == 0, last.stderr.read()
    assert records(tmp_path / "killed") == records(tmp_path / "calm")
    assert kills >= 1
    tally("kills", "captures", kills)


def test_a_run_killed_between_captures_goes_on(motif, cache, tmp_path, tally):
    calm = started(tmp_path / "calm", cache.folder)
    assert calm.wait(300) == 0, calm.stderr.read()
    child = started(tmp_path / "killed", cache.folder)
    until = time.monotonic() + 120
    while not list((tmp_path / "killed").glob("*/checkpoints/epoch-*")) and child.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    child.kill()
    child.wait()
    last = started(tmp_path / "killed", cache.folder)
    assert last.wait(300) == 0, last.stderr.read()
    assert len(records(tmp_path / "killed")) == 1
    assert records(tmp_path / "killed")[0]["spec"] == records(tmp_path / "calm")[0]["spec"]
    tally("kills", "runs on a GPU")


def test_two_processes_on_one_device(motif, cache, tmp_path, tally):
    """Each gives what it gives alone; one that is killed does not take the other with it."""
    seeds = (1, 2)
    for seed in seeds:
        alone = started(tmp_path / "alone", cache.folder, "--seed", str(seed))
        assert alone.wait(300) == 0, alone.stderr.read()
    both = [started(tmp_path / "both", cache.folder, "--seed", str(seed)) for seed in seeds]
    for child in both:
        assert child.wait(300) == 0, child.stderr.read()
    assert records(tmp_path / "both") == records(tmp_path / "alone")
    pair = [started(tmp_path / "pair", cache.folder, "--seed", str(seed)) for seed in seeds]
    time.sleep(8)
    pair[0].kill()
    pair[0].wait()
    assert pair[1].wait(300) == 0, pair[1].stderr.read()
    tally("faults", "two processes on one GPU", 2)
