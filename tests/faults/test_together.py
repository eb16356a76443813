"""Two at once, clocks that jump, processes whose parent is killed."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.faults import children
from tests.faults.harness import PATIENCE, begin, finish, some
from tests.faults.test_kills import records


@pytest.mark.faults
def test_two_studies_in_one_folder(motif, cache, tmp_path, tally):
    finish(children.study, tmp_path / "whole", cache.folder)
    log = tmp_path / "log"
    both = [begin(children.study, tmp_path / "both", cache.folder, 1, log) for _ in range(2)]
    for one in both:
        one.join(PATIENCE)
    assert [one.exitcode for one in both] == [0, 0]
    assert len(records(tmp_path / "both")) == children.RUNS
    assert records(tmp_path / "both") == records(tmp_path / "whole")
    epochs = [tuple(line.split()) for line in log.read_text().splitlines()]
    assert len({process for process, *_ in epochs}) == 2  # both had something to do
    assert set(Counter(epoch for _, *epoch in map(list, epochs) for epoch in [tuple(epoch)]).values()) == {1}
    assert len(epochs) == children.RUNS * 6  # no epoch was trained twice
    tally("faults", "two studies in one folder")


@pytest.mark.faults
@pytest.mark.parametrize("seed", some(range(3)))
def test_a_clock_that_jumps(motif, cache, tmp_path, tally, seed):
    works = {"train": (children.train, "aia"), "study": (children.study,)}
    for name, (work, *rest) in works.items():
        at = (tmp_path / "cache", *rest) if name == "train" else (cache.folder, *rest)
        finish(work, tmp_path / "calm" / name, *at)
        finish(children.with_a_mad_clock, seed, work, tmp_path / "mad" / name, *at)
    assert records(tmp_path / "mad") == records(tmp_path / "calm")
    assert len(records(tmp_path / "mad")) == children.RUNS + 1
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
    words = [
        "study",
        "covariate",
        "--only",
        "AIA (released)/motif-base",
        "--seeds",
        "4",
        "--epochs",
        "200",
        "--workers",
        "2",
    ]
    words += [
        "--limit",
        "24",
        "--set",
        "backbone.width=8",
        "--set",
        "train.checkpoint_every=1",
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
    ]
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
