"""Studies with less time than they need."""

import time

import pytest

from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from outland.training import fleet
from outland.training.scheduler import Load
from tests.studies.cases import cells_of, records

ROWS = ["ERM/motif-base", "IRM/motif-base"]
WORDS = ["train.epochs=60", "data.limit=48", "backbone.width=8", "train.batch_size=16"]


@pytest.fixture
def short_runs(monkeypatch):
    """Runs are thought to be short, so that one is begun where a tenth of a second is left."""
    monkeypatch.setattr(fleet, "Load", lambda: Load(0.01))


def test_with_too_little_time_one_run_is_begun_and_the_others_wait(motif, cache, tmp_path):
    study, cells = cells_of(2, ROWS, [*WORDS, "train.epochs=5000"])
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache, seconds=1.5)
    assert outcome.states == {"begun": 1, "waiting": 3}
    assert len(outcome.executed) == 1


@pytest.mark.usefixtures("short_runs")
def test_a_study_that_is_cut_short_goes_on_to_the_same_records(motif, cache, tmp_path):
    study, cells = cells_of(2, ROWS, WORDS)
    started = time.monotonic()
    run_study(study, cells, tmp_path / "whole", device="cpu", cache=cache)
    sixth = (time.monotonic() - started) / 6
    calls, states, checkpoints = 0, [], 0
    while not states or states[-1].get("done") != 4:
        calls, started = calls + 1, time.monotonic()
        assert calls < 60
        seconds = sixth * 1.1**calls  # a busy machine may need more for an epoch
        outcome = run_study(study, cells, tmp_path / "cut", device="cpu", cache=cache, seconds=seconds)
        assert time.monotonic() - started < seconds + 10  # an epoch, a record and a model more
        assert not outcome.failures
        states.append(dict(outcome.states))
        checkpoints += len(list(tmp_path.glob("cut/runs/*/checkpoints/epoch-*")))
    done = [state.get("done", 0) for state in states]
    assert done == sorted(done)
    assert done[0] < 4
    assert checkpoints
    assert records(tmp_path / "cut") == records(tmp_path / "whole")
    assert len(records(tmp_path / "cut")) == 4


@pytest.mark.usefixtures("short_runs")
def test_nothing_is_measured_once_the_time_is_up(motif, cache, tmp_path, monkeypatch):
    from outland.studies import jobs
    from tests.studies.cases import ablation_cells

    study, cells = ablation_cells("ERM/motif-base", words=[*WORDS, "train.epochs=150"])
    measured = []
    monkeypatch.setattr(jobs.Job, "measure", lambda self, options: measured.append(self.cell.name) or [])
    run_study(study, cells, tmp_path, device="cpu", cache=cache, seconds=0.2)
    assert RunStore(study, tmp_path).record(cells[0].specs[0]) is None
    run_study(study, cells, tmp_path, device="cpu", cache=cache, seconds=600)
    assert measured.count("ERM/motif-base") >= 1


def test_the_command_takes_a_budget(motif, outland, tmp_path):
    sets = [part for word in WORDS for part in ("--set", word)]
    words = ["study", "covariate", "--only", "ERM/motif-base", "--seeds", "1", *sets, "--out", str(tmp_path)]
    words += ["--device", "cpu"]
    status, _, err = outland(*words, "--time-budget", "soon")
    assert (status, "'soon' is not a duration: write it as 90s, 25m or 2h" in err) == (2, True)
    status, out, err = outland(*words, "--time-budget", "0.01s")
    assert (status, "the time is up: 1 waiting; 0 carried out now; the same command goes on" in out) == (0, True), out
    status, out, err = outland(*words, "--time-budget", "1h")
    assert status == 0, err
    assert "1 done" in out
