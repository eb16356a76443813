"""Execution of a study: the runs without a record; finished runs are left alone."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.graphs import Cache
from outland.spec import RunSpec
from outland.storage.files import writable_folder
from outland.studies.base import Cell, Study
from outland.studies.engines import Engine
from outland.studies.engines.local import LocalEngine
from outland.studies.estimates import run_cost
from outland.studies.jobs import Job, JobOptions
from outland.studies.progress import StudyProgress
from outland.studies.run_store import RunStore
from outland.training.trackers import check_tracker


@dataclass
class Outcome:
    """The states of a study's runs.

    Args:
        executed: folders of the runs that were executed this time, whether they failed or not.
        states: how many runs are in each state now.
        failures: name of the cell, the run's folder and its error.
    """

    executed: set[str] = field(default_factory=set)
    states: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str, str]] = field(default_factory=list)


def run_study(
    study: Study,
    cells: Sequence[Cell],
    out: Path,
    *,
    retry: bool = False,
    device: str = "auto",
    width: int | None = None,
    cache: Cache | None = None,
    data: DataFolder | None = None,
    engine: Engine | None = None,
    track: str | None = None,
    seconds: float | None = None,
) -> Outcome:
    """Execute the runs of these cells that are not done yet.

    Finished runs are left alone, interrupted ones resume from their last checkpoint, and a failed one stays failed
    until it is retried. On a GPU runs train side by side. All state is in the folders of the
    runs, so a study that is killed has lost only what its runs did since their last checkpoints.

    Args:
        study, cells: of the runs.
        out: folder of studies.
        retry: try failed runs again.
        device, width, cache, data: as in `run_fleet`.
        engine: executes the jobs; by default this process.
        track: name of a tracker that logs the runs.
        seconds: time for all of it: runs that would not end in time are not begun, and active ones stop with a
            checkpoint.
    """
    stop_at = None if seconds is None else time.time() + seconds
    if track is not None:
        check_tracker(track)
    jobs = _pending_jobs(cells, RunStore(study, out), retry)
    pending, cost = [spec for job in jobs for spec in job.specs], run_cost(find_device(device))
    progress = StudyProgress(len(pending), sum(map(cost, pending)), cost)
    try:
        (engine or LocalEngine()).execute(jobs, JobOptions(out, device, width, cache, data, track, stop_at), progress)
    finally:
        progress.close()
    outcome = study_outcome(study, cells, out)
    store = RunStore(study, out)
    outcome.executed = {s.slug for job in jobs for s in job.specs if store.state(job.cell, s) != "waiting"}
    return outcome


def study_outcome(study: Study, cells: Sequence[Cell], out: Path) -> Outcome:
    """The present states of a study's runs."""
    store, outcome = RunStore(study, out), Outcome()
    for cell in cells:
        for spec in cell.specs:
            state = store.state(cell, spec)
            outcome.states[state] += 1
            if state == "failed":
                outcome.failures.append((cell.name, spec.slug, store.failure(cell, spec) or "unknown"))
    return outcome


def _pending_jobs(cells: Sequence[Cell], store: RunStore, retry: bool) -> list[Job]:
    """The runs to execute, a job a cell; a run that several cells have is in the first."""
    writable_folder(store.folder)
    seen: set[str] = set()
    jobs = [Job(store.study, cell, tuple(_pending(cell, store, retry, seen))) for cell in cells]
    return [job for job in jobs if job.specs]


def _pending(cell: Cell, store: RunStore, retry: bool, seen: set[str]) -> list[RunSpec]:
    """The runs of a cell to execute, without those `seen` in another cell."""
    pending = []
    for spec in cell.specs:
        if spec.slug in seen:
            continue
        seen.add(spec.slug)
        state = store.state(cell, spec)
        if state == "done":
            if store.verify(cell, spec):
                continue
            state = "failed"
        if state == "failed":
            if not retry:
                continue
            store.clear_failure(cell, spec)
        pending.append(spec)
    return pending
