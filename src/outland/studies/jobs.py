"""Jobs for workers: runs of one cell, trained and measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.errors import CannotWrite, OutlandError
from outland.graphs import Cache
from outland.spec import RunSpec
from outland.studies.base import Cell, Measure, Study
from outland.studies.durations import estimate_seconds
from outland.studies.run_store import RunStore
from outland.training import run_fleet
from outland.training.callbacks import Callback
from outland.training.trackers import TrackingCallback


@dataclass(frozen=True)
class JobOptions:
    """The folder of studies, the arguments of `run_fleet`, and the name of a tracker that logs the runs."""

    out: Path
    device: str = "auto"
    width: int | None = None
    cache: Cache | None = None
    data: DataFolder | None = None
    track: str | None = None


@dataclass(frozen=True)
class Job:
    """Runs of a cell that are executed together."""

    study: Study
    cell: Cell
    specs: tuple[RunSpec, ...]

    def split(self, count: int | None = None) -> "list[Job]":
        """The same runs in `count` jobs of nearly equal size; at most, and by default, one a run."""
        count = min(len(self.specs) if count is None else count, len(self.specs))
        bounds = [number * len(self.specs) // count for number in range(count + 1)] if count else []
        return [replace(self, specs=self.specs[start:end]) for start, end in pairwise(bounds)]

    def seconds(self) -> float:
        """Estimated seconds of all runs, one after another."""
        return sum(map(estimate_seconds, self.specs))

    def execute(self, options: JobOptions, callback: Callback | None = None) -> list[str]:
        """Train, then measure; returns the errors, which are also written beside their runs."""
        store = RunStore(self.study, options.out)
        errors = self._train(store, options, callback) if self.specs and self.cell.row.trained else []
        if self.study.measure is not None:
            errors += [self._measure(self.study.measure, spec, store, options) for spec in self.specs]
        return [f"{self.cell.name}: {error}" for error in errors if error is not None]

    def _train(self, store: RunStore, options: JobOptions, callback: Callback | None) -> list[str | None]:
        if options.track is not None:
            callback = TrackingCallback(options.track, store.folder, callback)
        result = run_fleet(
            self.specs,
            store.folder,
            width=options.width,
            device=options.device,
            cache=options.cache,
            data=options.data,
            callback=callback,
        )
        for problem in result.failures.values():
            if isinstance(problem, CannotWrite):
                raise problem  # as would all others: the study stops, and goes on when there is space
        return [store.save_failure(self.specs[index], problem) for index, problem in result.failures.items()]

    def _measure(self, measure: Measure, spec: RunSpec, store: RunStore, options: JobOptions) -> str | None:
        """Measure a run if it is trained; returns the error, if any."""
        if self.cell.row.trained and store.record(spec) is None:
            return None
        folder, device = store.run_folder(spec), find_device(options.device)
        try:
            if self.cell.row.trained and not folder.model_path.is_dir():
                raise OutlandError(
                    "its record came from another machine, without the model that is to be measured: import the "
                    "measurement too, or let --retry train the run again here"
                )
            store.save_measurement(spec, measure(spec, folder.path, device, options.cache, options.data))
        except CannotWrite:
            raise
        except Exception as problem:
            return store.save_failure(spec, problem, measuring=True)
        return None


def split_jobs(jobs: Sequence[Job], workers: int) -> list[Job]:
    """The same runs in jobs for so many workers: the longest are split until there is one for each, and come first.

    A long job that starts last would keep one worker busy after all others have ended.
    """
    seconds, counts = [job.seconds() for job in jobs], [1] * len(jobs)
    for _ in range(workers - len(jobs)):
        splittable = [index for index, job in enumerate(jobs) if counts[index] < len(job.specs)]
        if splittable:
            counts[max(splittable, key=lambda index: seconds[index] / counts[index])] += 1
    pieces = [piece for job, count in zip(jobs, counts, strict=True) for piece in job.split(count)]
    return sorted(pieces, key=lambda job: -job.seconds())


def shard(cells: Sequence[Cell], words: str) -> list[Cell]:
    """The runs of task i of n of a job array, given as `i/n`: of all runs in the order of their keys, every n-th.

    The state of the runs plays no part, so that tasks started at different times never share a run.
    """
    number, _, count = words.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise OutlandError(f"'{words}' is not a shard: write it as I/N with I from 1 to N, as in 3/10")
    keys = sorted({spec.slug: spec.key for cell in cells for spec in cell.specs}.items(), key=lambda pair: pair[::-1])
    slugs = {slug for slug, _ in keys[int(number) - 1 :: int(count)]}
    selected = [replace(cell, specs=tuple(spec for spec in cell.specs if spec.slug in slugs)) for cell in cells]
    return [cell for cell in selected if cell.specs]
