"""Jobs for workers: runs of one cell, trained and measured."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.errors import CannotWrite, OutlandError
from outland.graphs import Cache
from outland.spec import RunSpec
from outland.stopping import is_stopping, stop_after
from outland.studies.base import Cell, Measure, Study
from outland.studies.durations import estimate_seconds
from outland.studies.gpu_costs import gpu_load
from outland.studies.run_store import RunStore
from outland.training import run_fleet
from outland.training.callbacks import Callback
from outland.training.trackers import TrackingCallback


@dataclass(frozen=True)
class JobOptions:
    """The folder of studies, the arguments of `run_fleet`, the name of a tracker that logs the runs, and when to stop.

    `stop_at` is in seconds since 1970, as other processes and machines count them too.
    """

    out: Path
    device: str = "auto"
    width: int | None = None
    cache: Cache | None = None
    data: DataFolder | None = None
    track: str | None = None
    stop_at: float | None = None


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
        errors: list[str] = []
        execute_jobs([self], options, errors.append, callback)
        return errors

    def measure(self, options: JobOptions) -> list[str]:
        """Measure the runs that are trained, where the study does; returns the errors."""
        if self.study.measure is None:
            return []
        store = RunStore(self.study, options.out)
        pending = takewhile(lambda spec: not is_stopping(), self.specs)
        errors = [self._measure(self.study.measure, spec, store, options) for spec in pending]
        return [f"{self.cell.name}: {error}" for error in errors if error is not None]

    def _measure(self, measure: Measure, spec: RunSpec, store: RunStore, options: JobOptions) -> str | None:
        """Measure a run if it is trained; returns the error, if any."""
        folder, device = store.run_folder(spec), find_device(options.device)
        if self.cell.row.trained and not folder.is_finished:
            return None
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


def execute_jobs(
    jobs: Sequence[Job], options: JobOptions, print_error: Callable[[str], None], callback: Callback | None = None
) -> None:
    """Train the runs of all jobs in this process, on a GPU side by side, then measure them.

    Errors are written beside their runs and passed to `print_error`.
    """
    with stop_after(None if options.stop_at is None else options.stop_at - time.time()):
        trained = [(job, spec) for job in jobs if job.cell.row.trained for spec in job.specs]
        if trained:
            _train(trained, options, print_error, callback)
        for error in (error for job in jobs for error in job.measure(options)):
            print_error(error)


def _train(
    runs: Sequence[tuple[Job, RunSpec]],
    options: JobOptions,
    print_error: Callable[[str], None],
    callback: Callback | None,
) -> None:
    store, specs = RunStore(runs[0][0].study, options.out), [spec for _, spec in runs]
    if options.track is not None:
        callback = TrackingCallback(options.track, store.folder, callback)

    def save_failure(index: int, problem: Exception) -> None:
        if isinstance(problem, CannotWrite):
            raise problem  # as would all others: the study stops, and goes on when there is space
        error = store.save_failure(specs[index], problem)
        if error is not None:
            print_error(f"{runs[index][0].cell.name}: {error}")

    run_fleet(
        specs,
        store.folder,
        width=options.width,
        loads=list(map(gpu_load, specs)) if find_device(options.device).type == "cuda" else None,
        device=options.device,
        cache=options.cache,
        data=options.data,
        callback=callback,
        on_failure=save_failure,
    )


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
    if not (number.isdecimal() and count.isdecimal() and len(number + count) < 20 and 1 <= int(number) <= int(count)):
        raise OutlandError(f"'{words}' is not a shard: write it as I/N with I from 1 to N, as in 3/10")
    keys = sorted({spec.slug: spec.key for cell in cells for spec in cell.specs}.items(), key=lambda pair: pair[::-1])
    slugs = {slug for slug, _ in keys[int(number) - 1 :: int(count)]}
    selected = [replace(cell, specs=tuple(spec for spec in cell.specs if spec.slug in slugs)) for cell in cells]
    return [cell for cell in selected if cell.specs]
