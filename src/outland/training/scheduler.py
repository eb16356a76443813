"""Which runs share a device, and whose turn it is."""

import math
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from statistics import median

import torch

from outland.errors import OutlandError
from outland.progress import say
from outland.stopping import Stopped, is_stopping, seconds_left
from outland.training.capture import Event
from outland.training.record import RunRecord
from outland.training.runs import Run

WIDTH = 10  # runs at a time on a GPU, at most
CAPACITY = 5.0  # shares of a device that runs may add up to: small kernels of several fill what one leaves idle
MOST_SKIPPED = 0.5  # of the turns of the last of those that begin together
_POLL_SECONDS = 2e-5
_MARGIN = 1.1  # a run is begun if so many times its estimated time is left, for one that does not end is no result


@dataclass(frozen=True)
class Load:
    """What a run asks of a device.

    Args:
        seconds: of the whole device.
        share: of the device that it can use while it runs alone.
        steps: of its training.
    """

    seconds: float = 1.0
    share: float = CAPACITY / WIDTH
    steps: int = 1


@dataclass
class FleetResult:
    """The outcome of several runs.

    Args:
        records: of the runs that finished, by index into the list of specs.
        failures: the exceptions of those that failed.
        unfinished: those that were stopped, or for which no time was left.
    """

    records: dict[int, RunRecord] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)
    unfinished: list[int] = field(default_factory=list)


@dataclass
class ActiveRun:
    """A run that has started, and the generator of its steps.

    Args:
        run, steps: the run, and what carries it out.
        started: when, by `time.monotonic`.
        device_seconds: its part of the time since then, which is divided among the runs that are active.
        weight: of its part; runs take their steps in turn, so that it is what a step costs.
        skipped: share of its turns that it gives to others.
    """

    run: Run
    steps: Generator[Event, None, None]
    started: float = field(default_factory=time.monotonic)
    device_seconds: float = 0.0
    weight: float = 1.0
    skipped: float = 0.0

    def has_turn(self, turn: int) -> bool:
        """Whether it takes a step in this turn of all runs."""
        return int((turn + 1) * self.skipped) == int(turn * self.skipped)


class MemoryBudget:
    """Whether the device has memory for another run, by what the active ones take.

    A run takes more as it meets new shapes and is scored for the first time, hence the half on top; what is misjudged
    all the same is mended when memory runs out. On a GPU the memory of ended runs is released when it is needed, for
    that stops the others.

    Args:
        free_memory: returns the free bytes of the device; infinity where they are not counted.
        release: releases what ended runs held.
    """

    def __init__(self, free_memory: Callable[[], float], release: Callable[[], None] = lambda: None) -> None:
        self._free_memory, self._release = free_memory, release
        self._initial = free_memory()
        self.has_garbage = self._initial != math.inf  # of earlier fleets of this process

    def has_room(self, active: int) -> bool:
        """Whether one more run would fit beside `active` runs."""
        if not active or self._fits(active):
            return True
        return self.release() and self._fits(active)

    def release(self) -> bool:
        """Release what ended runs held; whether there was anything."""
        had_garbage, self.has_garbage = self.has_garbage, False
        if had_garbage:
            self._release()
        return had_garbage

    def mark_ended(self) -> None:
        """A run has ended, and what it held is garbage."""
        self.has_garbage = True
        if self._initial == math.inf:
            self.release()

    def _fits(self, active: int) -> bool:
        free = self._free_memory()
        return free == math.inf or free > 1.5 * (self._initial - free) / active


class Scheduler:
    """Runs that wait and runs that are active, as many at a time as the device can use.

    Args:
        loads: of the runs, which are known by their index; the longest start first. The first ones
            skip some of their turns, each more than the one before: they would all end at the same time
            otherwise, and so would the next ones, while the host ends and starts runs and the device waits.
        width: how many at a time, at most; lowered when memory runs out.
        start: starts the run at an index, or restarts it after it had to make room for others.
        on_failure: called with the index and the exception of a run that failed.
        on_end: called with the index of a run that ended, one way or another.
    """

    def __init__(
        self,
        loads: Sequence[Load],
        width: int,
        start: Callable[[int, bool], ActiveRun],
        on_failure: Callable[[int, Exception], None] = lambda index, problem: None,
        on_end: Callable[[int], None] = lambda index: None,
    ) -> None:
        self.loads, self.width, self._start = loads, width, start
        self._on_failure, self._on_end = on_failure, on_end
        order = sorted(range(len(loads)), key=lambda index: -loads[index].seconds)
        self.waiting = [(index, False) for index in order]
        self.active: dict[int, ActiveRun] = {}
        self.result = FleetResult()
        self._has_ended = False  # whether any run has
        self._short_of_memory: set[int] = set()
        self._alone: int | None = None  # the run that has had all memory since it started, if one has
        self._paces: list[float] = []  # of the runs that ended: seconds by the clock for one of their load
        self._divided_until = time.monotonic()

    def run(self, budget: MemoryBudget) -> FleetResult:
        """Start and advance runs in turn until all have ended, or there is no time for those that wait."""
        try:
            for turn in count():
                self._divide_time()
                if not self._start_next(budget) and not self.active:
                    break
                indices = [index for index, run in self.active.items() if run.has_turn(turn)]
                all_have_turns = len(indices) == len(self.active)
                events = [self._advance(index, budget) for index in indices]
                if self.active and all_have_turns and all(event is not None for event in events):
                    time.sleep(_POLL_SECONDS)  # all wait for the device
        finally:
            for active in self.active.values():
                with suppress(Exception):  # the others are closed all the same
                    active.steps.close()
        self.result.unfinished += [index for index, _ in self.waiting]
        return self.result

    def device_seconds(self, run: ActiveRun) -> float:
        """The part of the time that an active run has had so far."""
        self._divide_time()
        return run.device_seconds

    def _divide_time(self) -> None:
        """Divide what has passed since the last call among the runs that are active, by what their steps cost."""
        now = time.monotonic()
        total = sum(active.weight for active in self.active.values())
        for active in self.active.values():
            active.device_seconds += (now - self._divided_until) * active.weight / total
        self._divided_until = now

    def _start_next(self, budget: MemoryBudget) -> bool:
        """Start a waiting run if there is room, one at a time, so that it shows what each takes; whether one did."""
        if not self.waiting or len(self.active) >= self.width:
            return False
        if not self.active and self._short_of_memory:
            budget.release()  # which stops nobody: a run alone is to have all memory
        free = CAPACITY - sum(self.loads[index].share for index in self.active)
        for position, (index, restarted) in enumerate(self.waiting):
            load = self.loads[index]
            if self.active and load.share > free + 1e-9:
                return False
            if self._has_time(load):
                if not budget.has_room(len(self.active)):
                    return False
                del self.waiting[position]
                self._alone = None if self.active or budget.has_garbage else index
                active = self.active[index] = self._start(index, restarted)
                active.skipped = 0.0 if self._has_ended else MOST_SKIPPED * (len(self.active) - 1) / self.width
                active.weight = load.seconds / load.steps * (1 - active.skipped)
                return True
        return False

    def _has_time(self, load: Load) -> bool:
        """Whether a run would probably end in time, by the pace of those before it; the first is begun in any case.

        Else a budget that is shorter than a run would never come to anything: what is begun has checkpoints.
        """
        if is_stopping():
            return False
        pace = median(self._paces[-WIDTH:]) if self._paces else min(self.width, CAPACITY / load.share)
        return not (self.active or self.result.records) or _MARGIN * load.seconds * pace <= seconds_left()

    def _advance(self, index: int, budget: MemoryBudget) -> Event:
        """Let a run take a step, or note that it has ended; returns what its next step waits for."""
        active = self.active[index]
        try:
            return next(active.steps)
        except StopIteration:
            self.result.records[index] = active.run.record
            if active.run.was_whole:
                self._paces.append((time.monotonic() - active.started) / self.loads[index].seconds)
        except torch.OutOfMemoryError:
            self._postpone(index, budget)
        except Stopped:
            self.result.unfinished.append(index)
        except Exception as problem:
            self.result.failures[index] = _clear_frames(problem)
        self._divide_time()
        self._has_ended = True
        del self.active[index], active
        budget.mark_ended()
        if index in self.result.failures:
            self._on_failure(index, self.result.failures[index])
        if all(index != waiting for waiting, _ in self.waiting):
            self._on_end(index)
        return None

    def _postpone(self, index: int, budget: MemoryBudget) -> None:
        """Put a run back among those that wait, to resume from its checkpoint; one that had all memory fails.

        If ended runs held no memory that could be released, or that did not help, fewer run at a time from here on.
        """
        if index == self._alone:
            self.result.failures[index] = OutlandError("the GPU has not enough memory for this run alone")
            return
        released, is_first = budget.release(), index not in self._short_of_memory
        self._short_of_memory.add(index)
        if not (released and is_first) and len(self.active) > 1:
            self.width = len(self.active) - 1
            say(f"The GPU's memory is full: from here on {self.width} runs at a time", "yellow")
        self.waiting.append((index, True))


def _clear_frames(problem: Exception) -> Exception:
    """`problem` without the local variables of its frames and of its causes' frames, which hold the whole run."""
    cause: BaseException | None = problem
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__
    return problem
