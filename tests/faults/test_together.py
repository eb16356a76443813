"""Two at once, clocks that jump, processes whose parent is killed, devices without memory."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
import torch

from outland.training import RunSpec, run, run_fleet
from outland.training.trainer import Trainer
from tests.faults import children
from tests.faults.harness import PATIENCE, begin, finish
from tests.faults.test_kills import records


@pytest.mark.faults
def test_two_studies_in_one_folder(motif, cache, tmp_path, tally):
    finish(children.study, tmp_path / "whole", cache.folder)
    log = tmp_path / "log"
    both = [begin(children.study, tmp_path / "both", cache.folder, 1, log) for _ in range(2)]
    for one in both:
        one.join(PATIENCE)
    assert [one.exitcode for one in both] == [0, 0]
    assert len(records(tmp_path / "both")) == 9
    assert records(tmp_path / "both") == records(tmp_path / "whole")
    epochs = [tuple(line.split()) for line in log.read_text().splitlines()]
    assert len({process for process, *_ in epochs}) == 2  # both had something to do
    assert set(Counter(epoch for _, *epoch in map(list, epochs) for epoch in [tuple(epoch)]).values()) == {1}
    assert len(epochs) == 9 * 6  # no epoch was trained twice
    tally("faults", "two studies in one folder")


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(3))
def test_a_clock_that_jumps(motif, cache, tmp_path, tally, seed):
    works = {"train": (children.train, "aia"), "study": (children.study,)}
    for name, (work, *rest) in works.items():
        at = (tmp_path / "cache", *rest) if name == "train" else (cache.folder, *rest)
        finish(work, tmp_path / "calm" / name, *at)
        finish(children.with_a_mad_clock, seed, work, tmp_path / "mad" / name, *at)
    assert records(tmp_path / "mad") == records(tmp_path / "calm")
    assert len(records(tmp_path / "mad")) == 10
    tally("faults", "clocks that jump")


@pytest.mark.faults
def test_a_search_under_a_clock_that_jumps(motif, cache, tmp_path, tally):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
    finish(children.with_a_mad_clock, 4, children.search, tmp_path, cache.folder)
    assert children.search_of(tmp_path).report()["finished"]
    tally("faults", "clocks that jump")


@pytest.mark.faults
def test_workers_of_a_killed_study_end_with_it(motif, cache, tmp_path, tally):
    """The whole command in processes of its own; those left behind would train on unseen."""
    words = ["study", "covariate", "--only", "AIA/motif-base", "--seeds", "4", "--epochs", "200", "--workers", "2"]
    words += ["--limit", "24", "--set", "backbone.width=8", "--device", "cpu", "--out", str(tmp_path)]
    environment = {**os.environ, "OUTLAND_CACHE": str(cache.folder), "OMP_NUM_THREADS": "1"}
    command = subprocess.Popen([sys.executable, "-m", "outland", *words], env=environment, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(tmp_path.glob("runs/*/checkpoints/epoch-*"))) > 1)
    command.send_signal(signal.SIGKILL)
    command.wait()
    time.sleep(2)
    before = sorted(tmp_path.glob("runs/*/checkpoints/epoch-*"))
    time.sleep(1)
    assert before
    assert sorted(tmp_path.glob("runs/*/checkpoints/epoch-*")) == before  # nobody trains on
    tally("kills", "studies in several processes")


def wait_for(happened):
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.01)


TINY = {"data": {"limit": 48}, "backbone": {"width": 8, "layers": 3}, "train": {"epochs": 3, "batch_size": 16}}


def plain(record):
    return {name: value for name, value in vars(record).items() if name != "timing"}


def test_without_memory_for_all_fewer_run_at_a_time(motif, cache, tmp_path, monkeypatch, tally, capsys):
    specs = [RunSpec.make("motif", "erm", "base", seed=seed, changes=TINY) for seed in (1, 2, 3)]
    steps, at_once = Trainer.steps, []

    def crowded(self):
        at_once.append(self)
        try:
            for place, _ in enumerate(steps(self)):
                if place == 4 and len(at_once) > 2:
                    raise torch.OutOfMemoryError
                yield
        finally:
            at_once.remove(self)

    monkeypatch.setattr(Trainer, "steps", crowded)
    fleet = run_fleet(specs, tmp_path, width=3, device="cpu", cache=cache)
    assert sorted(fleet.records) == [0, 1, 2]
    assert not fleet.failures
    assert "from here on 2 runs at a time" in capsys.readouterr().err
    monkeypatch.undo()
    for place in range(3):
        assert plain(run(specs[place], tmp_path / "alone", device="cpu", cache=cache)) == plain(fleet.records[place])
    tally("faults", "devices without memory")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here whose memory could run out")
def test_a_gpu_whose_memory_runs_out(motif, cache, tmp_path, tally, capsys):
    """No pretence: the process may use a sliver of the GPU, which is enough for some of ten runs and not for all."""
    changes = {"data": {"limit": 2000}, "backbone": {"width": 300}, "train": {"epochs": 2, "batch_size": 1000}}
    specs = [RunSpec.make("motif", "aia", "base", seed=seed, changes=changes) for seed in range(10)]
    torch.cuda.set_per_process_memory_fraction(0.02)
    try:
        fleet = run_fleet(specs, tmp_path, width=10, device="cuda", cache=cache)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert not fleet.failures
    assert sorted(fleet.records) == list(range(10))
    assert "The GPU's memory is full" in capsys.readouterr().err
    tally("faults", "GPUs without memory")
