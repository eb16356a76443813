"""What a person sees of a run while it trains."""

import sys
import time
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from outland.progress import console
from outland.spec import RunSpec

_EVERY = 30.0  # seconds between two lines of a log
_COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(bar_width=30),
    TextColumn("{task.percentage:>3.0f}%"),
    TimeElapsedColumn(),
    TextColumn("left"),
    TimeRemainingColumn(),
)


def shown(score: float | None, metric: str) -> str:
    """A score as people read it: in per cent unless it is an error; a dash where there is none."""
    if score is None:
        return "–"
    return f"{score:.3f}" if metric == "rmse" else f"{100 * score:.2f}"


class Callback:
    """Sees a run go by and says nothing."""

    def of(self, spec: RunSpec) -> "Callback":
        """Who watches the run of this spec; here the same for all."""
        return self

    def start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Training begins, with so many epochs already done."""

    def step(self) -> None:
        """One step was taken; nothing may be read from the device here."""

    def epoch(self, row: dict[str, Any], metric: str) -> None:
        """An epoch is over."""

    def stop(self) -> None:
        """Training is over, for whatever reason."""


class ProgressBar(Callback):
    """A progress bar with the time left, and below it the last epoch's validation scores and loss terms."""

    def __init__(self) -> None:
        self._bar = Progress(*_COLUMNS)
        self._note = Text("")
        self._live = Live(Group(self._bar, self._note), console=console())

    def start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Show the bar."""
        self._live.start()
        self._task = self._bar.add_task(title, total=epochs * steps, completed=done * steps)

    def step(self) -> None:
        """Move the bar."""
        self._bar.advance(self._task)

    def epoch(self, row: dict[str, Any], metric: str) -> None:
        """Tell how the epoch went."""
        self._note.plain = _told(row, metric)

    def stop(self) -> None:
        """Leave the bar as it is."""
        self._live.stop()


class LogLines(Callback):
    """A line now and then, for a log: after the first epoch, then whenever half a minute has passed, and at the end."""

    def start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Remember how long the way is."""
        self._title, self._epochs, self._next = title, epochs, 0.0

    def epoch(self, row: dict[str, Any], metric: str) -> None:
        """Tell how the epoch went, if it is time to."""
        last = row["epoch"] + 1 == self._epochs
        if last or time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            line = f"{self._title}: {_told(row, metric)}"
            console().print(line, soft_wrap=True, highlight=False, markup=False)


class FleetProgress(Callback):
    """Many runs at once: how many of all their epochs are done; on a terminal as a bar, elsewhere a line now and then.

    Args:
        epochs: of all runs together.
    """

    def __init__(self, epochs: int) -> None:
        self._epochs, self._done, self._next = epochs, 0, 0.0
        self._bar = Progress(*_COLUMNS, console=console(), disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("epochs of all runs", total=epochs)

    def start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """One of the runs begins."""
        self._bar.start()
        self._count(done)

    def epoch(self, row: dict[str, Any], metric: str) -> None:
        """One of the runs has done an epoch."""
        self._count(1)
        if self._bar.disable and (self._done >= self._epochs or time.monotonic() >= self._next):
            self._next = time.monotonic() + _EVERY
            console().print(f"{self._done} of {self._epochs} epochs of all runs", highlight=False)

    def close(self) -> None:
        """All runs are over, for whatever reason."""
        self._bar.stop()

    def _count(self, epochs: int) -> None:
        self._done = min(self._done + epochs, self._epochs)
        self._bar.advance(self._task, epochs)


def _told(row: dict[str, Any], metric: str) -> str:
    scores = [f"{part} {shown(row[part][metric], metric)}" for part in ("val", "id_val") if part in row]
    terms = [f"{name.partition('.')[2]} {value:.3f}" for name, value in row["loss"].items()]
    return f"epoch {row['epoch']}: {' '.join(scores)}" + (f" | {' '.join(terms)}" if terms else "")


def progress_callback() -> Callback:
    """A bar on a terminal, a line now and then elsewhere."""
    return ProgressBar() if sys.stderr.isatty() else LogLines()
