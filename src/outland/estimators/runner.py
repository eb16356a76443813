"""Executes the jobs of a fit in worker processes, within its time."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from outland.errors import OutlandError
from outland.estimators.jobs import Job, Workshop
from outland.progress import console
from outland.stopping import Stopped, is_stopping, stop_on_sigterm
from outland.storage.snapshots import Snapshot
from outland.workers import worker_pool


class Runner:
    """Executes jobs, a few at a time.

    Args:
        workshop: that does them.
        workers: processes.
        started: when the fit began, by `time.perf_counter`.
        seconds: that it may take.

    Attributes:
        failures: why jobs of a contender failed, by its name.
        computed: seconds of computing of all jobs so far, by `computing_clock`.
    """

    def __init__(self, workshop: Workshop, workers: int, started: float, seconds: float) -> None:
        self.workshop, self.workers, self.seconds, self._started = workshop, max(1, workers), seconds, started
        self.failures: dict[str, str] = {}
        self.computed = 0.0
        self._submit: Callable[[Job], Future[float]] | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f} of {task.total:.0f} trainings"),
            TimeElapsedColumn(),
            console=console(),
            disable=not sys.stderr.isatty(),
            transient=True,
        )

    @contextmanager
    def started(self) -> Iterator["Runner"]:
        """Context in which its processes are there."""
        with stop_on_sigterm(), worker_pool(self.workshop, self.workers) as self._submit, self._bar:
            yield self

    @property
    def elapsed(self) -> float:
        """Seconds since the fit began."""
        return time.perf_counter() - self._started

    def execute(self, jobs: Sequence[Job], title: str, until: float | None = None) -> list[Job]:
        """Do all jobs, and return those that were not begun before `until` seconds of computing were over.

        A job that fails is a failure of its contender, whose other jobs are then not begun.
        """
        waiting, running = deque(jobs), dict[Future[float], Job]()
        task = self._bar.add_task(title, total=len(jobs))
        while waiting or running:
            while waiting and len(running) < self.workers and (until is None or self.computed < until):
                job = waiting.popleft()
                if job.contender not in self.failures:
                    assert self._submit is not None
                    running[self._submit(job)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                self._end(future, running.pop(future))
                self._bar.advance(task)
            if is_stopping():
                raise Stopped("stopped, with all trainings that were finished")
        self._bar.remove_task(task)
        return [*waiting]

    def _end(self, future: "Future[float]", job: Job) -> None:
        try:
            self.computed += future.result()
        except Stopped:
            raise
        except OutlandError as problem:
            self.failures.setdefault(job.contender, str(problem))

    def results(self, jobs: Sequence[Job]) -> list[Snapshot]:
        """The results of jobs that are done."""
        found = [self.workshop.result(job) for job in jobs]
        missing = [job.name for job, result in zip(jobs, found, strict=True) if result is None]
        if missing:
            raise OutlandError(f"the result of {missing[0]} is gone from {self.workshop.folder}: begin the fit again")
        return [result for result in found if result is not None]
