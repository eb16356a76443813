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
MOST_SKIPPED = 0.5  # share of its turns that a run skips, at most
_POLL_SECONDS = 2e-5
_MARGIN = 1.1  # a run is begun if so many times its estimated time is left, for one that does not end is no result


@dataclass(frozen=True)
class Load:
    """What a run asks of a device.

    Args:
        seconds: of the whole device.
        share: of the device that it can use while it runs alone.
        step_seconds: of the whole device that a step takes.
    """

    seconds: float = 1.0
    share: float = CAPACITY / WIDTH
    step_seconds: float = 1.0


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
        step_seconds: estimated seconds of the device that a step takes.
        skipped: share of its turns that it skips.
        device_seconds: its part of the time since it started.
        spent: estimated seconds of the steps that it has taken since the time was last divided.
        reported: the part that was last reported.
        is_waiting: whether its next step waits for the device.
    """

    run: Run
    steps: Generator[Event, None, None]
    started: float = field(default_factory=time.monotonic)
    step_seconds: float = 1.0
    skipped: float = 0.0
    device_seconds: float = 0.0
    spent: float = 0.0
    reported: float = 0.0
    is_waiting: bool = False

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
            skip some of their turns, each more than the one before: where launches wait for the device, runs
            of all lengths take steps at one rate, would end at the same time and so would the next ones.
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
                for index in [index for index, run in self.active.items() if run.has_turn(turn)]:
                    self._advance(index, budget)
                if self.active and all(run.is_waiting for run in self.active.values()):
                    time.sleep(_POLL_SECONDS)
        finally:
            for active in self.active.values():
                with suppress(Exception):  # the others are closed all the same
                    active.steps.close()
        self.result.unfinished += [index for index, _ in self.waiting]
        return self.result

    def device_seconds(self, run: ActiveRun) -> float:
        """The part of the time that an active run has had so far, the step that it is in included; it never falls."""
        run.reported = max(run.reported, run.device_seconds + self._part(run, time.monotonic()))
        return run.reported

    def _divide_time(self) -> None:
        """Divide what has passed since the last call among the runs that are active."""
        now = time.monotonic()
        parts = [self._part(run, now) for run in self.active.values()]
        for run, part in zip(self.active.values(), parts, strict=True):
            run.device_seconds += part
            run.spent = 0.0
        self._divided_until = now

    def _part(self, run: ActiveRun, now: float) -> float:
        """A run's part of the time since it was last divided: by the estimated cost of the steps that each took.

        Equal parts where none took any: then the device is at work on earlier steps of all.
        """
        total = sum(active.spent for active in self.active.values())
        return (now - self._divided_until) * (run.spent / total if total else 1 / len(self.active))

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
                active.step_seconds = load.step_seconds
                active.skipped = 0.0 if self._paces else MOST_SKIPPED * (len(self.active) - 1) / self.width
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

    def _advance(self, index: int, budget: MemoryBudget) -> None:
        """Let a run take a step, unless it waits for the device, or note that it has ended."""
        active = self.active[index]
        try:
            active.spent += active.step_seconds
            active.is_waiting = next(active.steps) is not None
            active.spent -= active.step_seconds * active.is_waiting
            return
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
        del self.active[index], active
        budget.mark_ended()
        if index in self.result.failures:
            self._on_failure(index, self.result.failures[index])
        if all(index != waiting for waiting, _ in self.waiting):
            self._on_end(index)

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
