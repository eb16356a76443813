"""A progress bar over the runs of a study."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from outland.errors import counted
from outland.progress import console, say
from outland.spec import RunSpec
from outland.studies.durations import estimate_seconds, format_duration
from outland.studies.jobs import Job
from outland.studies.run_store import RunStore
from outland.training.callbacks import Callback

_LOG_INTERVAL = 30.0  # seconds between two lines of a log
_POLL_INTERVAL = 1.0  # seconds between two looks into the folders of runs
_COLUMNS = (
    TextColumn("{task.fields[runs]} of {task.fields[all]}", style="bold"),
    BarColumn(bar_width=30),
    TimeElapsedColumn(),
    TextColumn("left"),
    TimeRemainingColumn(),
    TextColumn("{task.description}"),
)


class StudyProgress(Callback):
    """A bar over all runs, which advances by their estimated cost; without a terminal, a line now and then."""

    def __init__(self, runs: int, cost: float, run_cost: Callable[[RunSpec], float] = estimate_seconds) -> None:
        self.run_cost = run_cost
        self._runs, self._cost, self._done, self._spent = runs, max(cost, 1e-9), 0, 0.0
        self._started, self._next, self._name = time.monotonic(), 0.0, ""
        self._errors: set[str] = set()
        self._bar = Progress(*_COLUMNS, console=console(), disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("", total=self._cost, runs=0, all=counted(runs, "run"))
        if runs:
            self._bar.start()

    def for_run(self, spec: RunSpec) -> Callback:
        """The callback of one run, whose epochs count by its own cost."""
        return _RunProgress(self, spec)

    @contextmanager
    def polling(self, jobs: Sequence[Job], out: Path) -> Iterator[None]:
        """Context in which the progress of runs in other processes is read from their folders."""
        over = Event()
        thread = Thread(target=self._poll, args=(jobs, out, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _poll(self, jobs: Sequence[Job], out: Path, over: Event) -> None:
        runs = [(RunStore(job.study, out), job.cell, spec) for job in jobs for spec in job.specs]
        last, shares = False, [0.0] * len(runs)
        while not last:
            last = over.wait(_POLL_INTERVAL)
            for index, (store, cell, spec) in enumerate(runs):
                if shares[index] < 1:  # what is over stays over
                    shares[index] = store.progress(cell, spec)
            self._done = shares.count(1.0)
            self._spent = sum(share * self.run_cost(spec) for share, (_, _, spec) in zip(shares, runs, strict=True))
            names = (cell.name for share, (_, cell, _) in zip(shares, runs, strict=True) if 0 < share < 1)
            self._name, completed = next(names, ""), min(self._spent, self._cost)
            self._bar.update(self._task, runs=self._done, completed=completed, description=self._name)
            self._print_line(last)

    def end_run(self) -> None:
        """Count a run."""
        self._done = min(self._done + 1, self._runs)
        self._bar.update(self._task, runs=self._done)
        self._print_line(last=self._done == self._runs)

    def print_error(self, error: str) -> None:
        """Print an error above the bar, the first time that a run meets it."""
        if error in self._errors:
            return
        self._errors.add(error)
        self._bar.console.print(error, style="red", soft_wrap=True, highlight=False, markup=False)

    def close(self) -> None:
        """Stop the bar."""
        self._bar.stop()

    def seconds_left(self) -> float:
        """Estimated seconds to go, by the speed so far; NaN at the start."""
        share = min(self._spent / self._cost, 1.0)
        return (time.monotonic() - self._started) * (1 - share) / share if share else float("nan")

    def spend(self, seconds: float, name: str) -> None:
        """Count so much of the estimated cost, and show whose it was."""
        self._spent, self._name = self._spent + seconds, name
        self._bar.update(self._task, completed=min(self._spent, self._cost), description=name)
        self._print_line()

    def _print_line(self, last: bool = False) -> None:
        if self._bar.disable and self._spent and (last or time.monotonic() >= self._next):
            self._next = time.monotonic() + _LOG_INTERVAL
            left = f", {format_duration(self.seconds_left())} left" if self._done < self._runs else ""
            say(f"{self._done} of {counted(self._runs, 'run')}{left} ({self._name})")


class _RunProgress(Callback):
    """The share of one run in the progress of a study."""

    def __init__(self, study: StudyProgress, spec: RunSpec) -> None:
        self._study, self._epoch_cost = study, study.run_cost(spec) / spec.train.epochs
        self._name = f"{spec.method}/{spec.dataset}-{spec.domain}"

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        self._study.spend(done * self._epoch_cost, self._name)

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        self._study.spend(self._epoch_cost, self._name)

    def on_train_end(self) -> None:
        self._study.end_run()
