"""What a person sees of a study while it runs: how many runs are done, and how long the rest will take."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from outland.errors import counted
from outland.progress import console
from outland.studies.costs import estimate, spoken
from outland.studies.jobs import Job
from outland.studies.ledger import Ledger
from outland.training import RunSpec
from outland.training.callbacks import Callback

_EVERY = 30.0  # seconds between two lines of a log
_LOOK = 1.0  # seconds between two looks into the folders of runs
_COLUMNS = (
    TextColumn("{task.fields[runs]} of {task.fields[all]}", style="bold"),
    BarColumn(bar_width=30),
    TimeElapsedColumn(),
    TextColumn("left"),
    TimeRemainingColumn(),
    TextColumn("{task.description}"),
)


class StudyProgress(Callback):
    """A bar over all runs, which moves by their estimated cost; without a terminal, a line now and then.

    Args:
        runs: how many are to be done.
        cost: what they are estimated to cost, in any unit.
    """

    def __init__(self, runs: int, cost: float) -> None:
        self._runs, self._cost, self._done, self._spent = runs, max(cost, 1e-9), 0, 0.0
        self._started, self._next, self._name, self._epoch_cost = time.monotonic(), 0.0, "", 0.0
        self._bar = Progress(*_COLUMNS, console=console(), disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("", total=self._cost, runs=0, all=counted(runs, "run"))
        if runs:
            self._bar.start()

    def cell(self, name: str, specs: Sequence[RunSpec]) -> None:
        """The runs of a cell begin."""
        self._name = name
        self._epoch_cost = estimate(specs[0]) / specs[0].train.epochs if specs else 0.0
        self._bar.update(self._task, description=name)

    @contextmanager
    def looking(self, jobs: Sequence[Job], out: Path) -> Iterator[None]:
        """Meanwhile, see how far runs of other processes are by looking into their folders."""
        over = Event()
        thread = Thread(target=self._look, args=(jobs, out, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _look(self, jobs: Sequence[Job], out: Path, over: Event) -> None:
        pairs = [(Ledger(job.study, out), job.cell, spec) for job in jobs for spec in job.specs]
        last, shares = False, [0.0] * len(pairs)
        while not last:
            last = over.wait(_LOOK)
            for place, (ledger, cell, spec) in enumerate(pairs):
                if shares[place] < 1:  # what is over stays over
                    shares[place] = ledger.share(cell, spec)
            self._done = shares.count(1.0)
            self._spent = sum(share * estimate(spec) for share, (_, _, spec) in zip(shares, pairs, strict=True))
            self._name = next(
                (cell.name for share, (_, cell, _) in zip(shares, pairs, strict=True) if 0 < share < 1), ""
            )
            self._bar.update(
                self._task, runs=self._done, completed=min(self._spent, self._cost), description=self._name
            )
            self._line(last)

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """One of the runs begins, with so many epochs already done."""
        self._spend(done)

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """One of the runs has done an epoch."""
        self._spend(1)

    def on_train_end(self) -> None:
        """One of the runs is over."""
        self._done = min(self._done + 1, self._runs)
        self._bar.update(self._task, runs=self._done)
        self._line(last=self._done == self._runs)

    def say(self, words: str) -> None:
        """A remark above the bar."""
        self._bar.console.print(words, style="red", soft_wrap=True, highlight=False, markup=False)

    def close(self) -> None:
        """The study is over, for whatever reason."""
        self._bar.stop()

    def left(self) -> float:
        """Seconds to go, if what is left is as fast as what is done."""
        share = min(self._spent / self._cost, 1.0)
        return (time.monotonic() - self._started) * (1 - share) / share if share else float("nan")

    def _spend(self, epochs: int) -> None:
        self._spent += epochs * self._epoch_cost
        self._bar.update(self._task, completed=min(self._spent, self._cost))
        self._line()

    def _line(self, last: bool = False) -> None:
        if self._bar.disable and self._spent and (last or time.monotonic() >= self._next):
            self._next = time.monotonic() + _EVERY
            left = f", {spoken(self.left())} left" if self._done < self._runs else ""
            words = f"{self._done} of {counted(self._runs, 'run')}{left} ({self._name})"
            console().print(words, soft_wrap=True, highlight=False, markup=False)
