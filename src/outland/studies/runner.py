"""Carry a study out: the runs without a record, a cell at a time; whatever is done stays done."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outland.datasets import DataFolder
from outland.graphs import Cache
from outland.storage.files import writable_folder
from outland.studies.base import Cell, Study
from outland.studies.costs import estimate
from outland.studies.engines import Engine, Job, Site
from outland.studies.engines.local import LocalEngine
from outland.studies.ledger import Ledger
from outland.studies.watch import StudyProgress
from outland.training import RunSpec
from outland.training.trackers import check_tracker


@dataclass
class Outcome:
    """What became of a study's runs.

    Args:
        tried: folders of the runs that were carried out this time, for better or worse.
        states: how many runs are in each state now.
        failures: name of the cell, the run's folder and its error.
    """

    tried: set[str] = field(default_factory=set)
    states: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def ran(self) -> int:
        """How many were carried out this time."""
        return len(self.tried)


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
) -> Outcome:
    """Do the runs of these cells that are not done yet.

    Finished runs are left alone, interrupted ones go on from their last checkpoint, and a failed one stays failed until
    it is retried. Runs of a cell train side by side where the device allows. Nothing but the folders of the runs is
    kept, so a study that is killed has lost only what its runs did since their last checkpoints.

    Args:
        study, cells: what to do.
        out: folder of studies.
        retry: try failed runs again.
        device, width, cache, data: as in `run_fleet`.
        engine: who carries them out; by default this process.
        track: name of a tracker that the runs are shown to.
    """
    if track is not None:
        check_tracker(track)
    ledger = Ledger(study, out)
    writable_folder(ledger.runs)
    seen: set[str] = set()
    jobs = [Job(study, cell, tuple(_todo(cell, ledger, retry, seen))) for cell in cells]
    jobs = [job for job in jobs if job.specs]
    todo = [spec for job in jobs for spec in job.specs]
    callback = StudyProgress(len(todo), sum(map(estimate, todo)))
    try:
        (engine or LocalEngine()).carry_out(jobs, Site(out, device, width, cache, data, track), callback)
    finally:
        callback.close()
    told = outcome_of(study, cells, out)
    told.tried = {spec.slug for spec in todo}
    return told


def outcome_of(study: Study, cells: Sequence[Cell], out: Path) -> Outcome:
    """Where the runs of a study stand."""
    ledger, outcome = Ledger(study, out), Outcome()
    for cell in cells:
        for spec in cell.specs:
            state = ledger.state(cell, spec)
            outcome.states[state] += 1
            if state == "failed":
                outcome.failures.append((cell.name, spec.slug, ledger.failure(cell, spec) or "unknown"))
    return outcome


def _todo(cell: Cell, ledger: Ledger, retry: bool, seen: set[str]) -> list[RunSpec]:
    """The runs of a cell to carry out; a run that another cell has too was `seen` there."""
    found = []
    for spec in cell.specs:
        if spec.slug in seen:
            continue
        seen.add(spec.slug)
        state = ledger.state(cell, spec)
        if state == "done":
            if ledger.check(cell, spec):
                continue
            state = "failed"
        if state == "failed":
            if not retry:
                continue
            ledger.forget_failure(cell, spec)
        found.append(spec)
    return found
