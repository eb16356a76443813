"""Callbacks of a run: progress bars, lines of a log, and the base of all others."""

import sys
import time
from collections import Counter
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text
from torch import Tensor

from outland.models.messages import format_score
from outland.progress import console, say
from outland.spec import RunSpec

_LOG_INTERVAL = 30.0  # seconds between two lines of a log
_COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(bar_width=30),
    TextColumn("{task.percentage:>3.0f}%"),
    TimeElapsedColumn(),
    TextColumn("left"),
    TimeRemainingColumn(),
)


class Callback:
    """Called at the events of a run; does nothing."""

    def for_run(self, spec: RunSpec) -> "Callback":
        """The callback of the run of `spec`; here the same for all."""
        return self

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Training of `epochs` epochs with `steps` steps each starts; `done` epochs were trained before."""

    def on_step_end(self) -> None:
        """A step was taken; nothing may be read from the device here."""

    def on_evaluation_end(self, epoch: int, logits: Tensor) -> None:
        """All parts but `train` were predicted: `logits`, one part after another, which the next epoch overwrites.

        They are on the device; nothing may be read from it here.
        """

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """An epoch ended; `row` is its row of the curves."""

    def on_train_end(self) -> None:
        """Training ended, for whatever reason."""

    def on_masks_start(self, graphs: int) -> None:
        """The masks of so many graphs are computed and scored, which may take long."""


class CallbackWrapper(Callback):
    """Passes every event on to another callback, `inner`."""

    def __init__(self, inner: Callback | None = None) -> None:
        self.inner = inner or Callback()

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Pass it on."""
        self.inner.on_train_start(title, epochs, steps, done)

    def on_step_end(self) -> None:
        """Pass it on."""
        self.inner.on_step_end()

    def on_evaluation_end(self, epoch: int, logits: Tensor) -> None:
        """Pass it on."""
        self.inner.on_evaluation_end(epoch, logits)

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Pass it on."""
        self.inner.on_epoch_end(row, metric)

    def on_train_end(self) -> None:
        """Pass it on."""
        self.inner.on_train_end()

    def on_masks_start(self, graphs: int) -> None:
        """Pass it on."""
        self.inner.on_masks_start(graphs)


class _ProgressBar(Callback):
    """A progress bar with the time left, and below it the last epoch's validation scores and loss terms."""

    def __init__(self) -> None:
        self._bar = Progress(*_COLUMNS)
        self._note = Text("")
        self._live = Live(Group(self._bar, self._note), console=console())

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        self._live.start()
        self._task = self._bar.add_task(title, total=epochs * steps, completed=done * steps)

    def on_step_end(self) -> None:
        self._bar.advance(self._task)

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        self._note.plain = _format_epoch(row, metric)

    def on_train_end(self) -> None:
        self._live.stop()

    def on_masks_start(self, graphs: int) -> None:
        _say_masks(graphs)


class _LogLines(Callback):
    """A line now and then, for a log: after the first epoch, then whenever half a minute has passed, and at the end."""

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        self._title, self._epochs, self._next = title, epochs, 0.0

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        last = row["epoch"] + 1 == self._epochs
        if last or time.monotonic() >= self._next:
            self._next = time.monotonic() + _LOG_INTERVAL
            say(f"{self._title}: {_format_epoch(row, metric)}")

    def on_masks_start(self, graphs: int) -> None:
        _say_masks(graphs)


class FleetProgress(Callback):
    """How many of the epochs of all `runs` are done; on a terminal as a bar, elsewhere a line now and then."""

    def __init__(self, runs: int) -> None:
        self._runs, self._epochs, self._done, self._next = runs, 0, 0, 0.0
        self._bar = Progress(*_COLUMNS, console=console(), disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("epochs of all runs", total=None)

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Count the epochs that were trained before; all runs have as many."""
        self._epochs = self._runs * epochs
        self._bar.update(self._task, total=self._epochs)
        self._bar.start()
        self._count(done)

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Count an epoch, and print a line if it is time to."""
        self._count(1)
        if self._bar.disable and (self._done >= self._epochs or time.monotonic() >= self._next):
            self._next = time.monotonic() + _LOG_INTERVAL
            say(f"{self._done} of {self._epochs} epochs of all runs")

    def close(self) -> None:
        """Stop the bar, once all runs ended."""
        self._bar.stop()

    def _count(self, epochs: int) -> None:
        self._done = min(self._done + epochs, self._epochs)
        self._bar.advance(self._task, epochs)


def _say_masks(graphs: int) -> None:
    say(f"trained; scoring the masks of {graphs} graphs, which takes many passes")


def _format_epoch(row: dict[str, Any], metric: str) -> str:
    scores = [f"{part} {format_score(row[part][metric], metric)}" for part in ("val", "id_val") if part in row]
    short = Counter(name.partition(".")[2] for name in row["loss"])  # without the phase, where that is clear
    names = {name: plain if short[plain := name.partition(".")[2]] == 1 else name for name in row["loss"]}
    terms = [f"{names[name]} {value:.3f}" for name, value in row["loss"].items()]
    return f"epoch {row['epoch']}: {' '.join(scores)}" + (f" | {' '.join(terms)}" if terms else "")


def progress_callback() -> Callback:
    """A bar on a terminal, a line now and then elsewhere."""
    return _ProgressBar() if sys.stderr.isatty() else _LogLines()
