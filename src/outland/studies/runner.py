"""Carry a study out: the runs without a record, a cell at a time; whatever is done stays done."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outland.datasets import DataFolder
from outland.files import writable_folder
from outland.graphs import Cache
from outland.studies.base import Cell, Study
from outland.studies.costs import estimate
from outland.studies.ledger import Ledger
from outland.studies.watch import StudyWatcher
from outland.training import RunSpec, run_fleet
from outland.training.runs import find_device


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
    """
    find_device(device)
    ledger = Ledger(study, out)
    writable_folder(ledger.runs)
    seen: set[str] = set()
    todo = {cell.name: _todo(cell, ledger, retry, seen) for cell in cells}
    watcher = StudyWatcher(sum(map(len, todo.values())), sum(estimate(s) for specs in todo.values() for s in specs))
    tried: set[str] = set()
    try:
        for cell in cells:
            specs = todo[cell.name]
            watcher.cell(cell.name, specs)
            if specs and cell.row.trained:
                fleet = run_fleet(
                    specs, ledger.runs, width=width, device=device, cache=cache, data=data, watcher=watcher
                )
                for place, problem in fleet.failures.items():
                    _told(ledger.fail(specs[place], problem), cell, watcher)
            if study.measure is not None:
                _measure(study, ledger, cell, specs, watcher, (find_device(device), cache, data))
            tried |= {spec.slug for spec in specs}
    finally:
        watcher.close()
    told = outcome_of(study, cells, out)
    told.tried = tried
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


def _measure(
    study: Study, ledger: Ledger, cell: Cell, specs: list[RunSpec], watcher: StudyWatcher, where: tuple[object, ...]
) -> None:
    """Measure the runs that are there to be measured; what goes wrong with one does not disturb the others."""
    assert study.measure is not None
    for spec in specs:
        if cell.row.trained and ledger.record(spec) is None:
            continue
        try:
            ledger.keep(spec, study.measure(spec, ledger.folder(spec).path, *where))
        except Exception as problem:
            _told(ledger.fail(spec, problem, measuring=True), cell, watcher)


def _told(error: str | None, cell: Cell, watcher: StudyWatcher) -> None:
    if error is not None:
        watcher.say(f"{cell.name}: {error}")
