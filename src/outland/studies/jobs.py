"""What a worker is given to do: runs of one cell, trained and measured, wherever the worker is."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.errors import CannotWrite, OutlandError
from outland.graphs import Cache
from outland.studies.base import Cell, Study
from outland.studies.costs import estimate
from outland.studies.ledger import Ledger
from outland.training import RunSpec, run_fleet
from outland.training.callbacks import Callback
from outland.training.trackers import TrackingCallback


@dataclass(frozen=True)
class Site:
    """Where runs are carried out.

    Args:
        out: folder of studies.
        device, width, cache, data: as in `run_fleet`.
        track: name of a tracker that the runs are shown to.
    """

    out: Path
    device: str = "auto"
    width: int | None = None
    cache: Cache | None = None
    data: DataFolder | None = None
    track: str | None = None


@dataclass(frozen=True)
class Job:
    """Runs of a cell that are carried out together.

    Args:
        study, cell: whose runs they are.
        specs: the runs.
    """

    study: Study
    cell: Cell
    specs: tuple[RunSpec, ...]

    def single(self) -> "list[Job]":
        """The same, a run at a time."""
        return self.cut(len(self.specs))

    def cut(self, parts: int) -> "list[Job]":
        """The same in so many jobs, or as many as there are runs."""
        count = min(parts, len(self.specs))
        places = [part * len(self.specs) // count for part in range(count + 1)] if count else []
        return [replace(self, specs=self.specs[start:end]) for start, end in pairwise(places)]

    def carry_out(self, site: Site, callback: Callback | None = None) -> list[str]:
        """Train, then measure; what failed is written down beside its run, and told."""
        ledger, told = Ledger(self.study, site.out), []
        if site.track is not None:
            callback = TrackingCallback(site.track, ledger.runs, callback)
        if self.specs and self.cell.row.trained:
            fleet = run_fleet(
                self.specs,
                ledger.runs,
                width=site.width,
                device=site.device,
                cache=site.cache,
                data=site.data,
                callback=callback,
            )
            for problem in fleet.failures.values():
                if isinstance(problem, CannotWrite):
                    raise problem  # as would all others: the study stops, and goes on when there is space
            told = [ledger.fail(self.specs[place], problem) for place, problem in fleet.failures.items()]
        if self.study.measure is not None:
            told += [self._measure(ledger, spec, site) for spec in self.specs]
        return [f"{self.cell.name}: {error}" for error in told if error is not None]

    def _measure(self, ledger: Ledger, spec: RunSpec, site: Site) -> str | None:
        """Measure a run that is there to be measured; why it could not be."""
        assert self.study.measure is not None
        if self.cell.row.trained and ledger.record(spec) is None:
            return None
        where = (find_device(site.device), site.cache, site.data)
        try:
            ledger.keep(spec, self.study.measure(spec, ledger.folder(spec).path, *where))
        except CannotWrite:
            raise
        except Exception as problem:
            return ledger.fail(spec, problem, measuring=True)
        return None


def deal(jobs: Sequence[Job], workers: int) -> list[Job]:
    """The same work in jobs for so many workers: the longest are cut until there is one for each, and come first.

    A long job that is begun last keeps one worker busy when all others have gone home.
    """
    costs = [sum(map(estimate, job.specs)) for job in jobs]
    parts = [1] * len(jobs)
    longest = [(-cost, place) for place, cost in enumerate(costs)]
    heapq.heapify(longest)
    while longest and sum(parts) < workers:
        _, place = heapq.heappop(longest)
        if parts[place] < len(jobs[place].specs):
            parts[place] += 1
            heapq.heappush(longest, (-costs[place] / parts[place], place))
    pieces = [piece for job, count in zip(jobs, parts, strict=True) for piece in job.cut(count)]
    return sorted(pieces, key=lambda job: -sum(map(estimate, job.specs)))


def shard(cells: Sequence[Cell], words: str) -> list[Cell]:
    """The runs of one task of a job array, as cells: of all runs in the order of their keys, every n-th.

    What is done and what is not plays no part, so that tasks started at different times never share a run.

    Args:
        cells: of the whole study.
        words: `i/n`, with i from 1 to n.
    """
    place, _, count = words.partition("/")
    if not (place.isdecimal() and count.isdecimal() and 1 <= int(place) <= int(count)):
        raise OutlandError(f"'{words}' is not a shard: write it as I/N with I from 1 to N, as in 3/10")
    keys = sorted({spec.slug: spec.key for cell in cells for spec in cell.specs}.items(), key=lambda pair: pair[::-1])
    own = {slug for slug, _ in keys[int(place) - 1 :: int(count)]}
    kept = [replace(cell, specs=tuple(spec for spec in cell.specs if spec.slug in own)) for cell in cells]
    return [cell for cell in kept if cell.specs]
