"""Many runs side by side on one device: while one waits to be read, the others keep it busy."""

import gc
import math
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.errors import OutlandError
from outland.graphs import Cache, Splits
from outland.progress import say
from outland.spec import RunSpec, load_splits
from outland.training.callbacks import Callback
from outland.training.record import RunRecord
from outland.training.runs import Run


@dataclass
class FleetResult:
    """The outcome of several runs.

    Args:
        records: of the runs that finished, by index into the list of specs.
        failures: the exceptions of the others.
    """

    records: dict[int, RunRecord] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)


def run_fleet(
    specs: Sequence[RunSpec],
    out: Path | str,
    *,
    width: int | None = None,
    resume: bool = True,
    force: bool = False,
    device: str = "auto",
    cache: Cache | None = None,
    data: DataFolder | None = None,
    callback: Callback | None = None,
) -> FleetResult:
    """Execute runs side by side in one process, each with its own CUDA stream, memory pool and random numbers.

    Each gives what it would give alone. A run that fails does not disturb the others; one for which there is no memory
    waits until there is.

    Args:
        specs: the runs.
        out: folder of runs.
        width: how many at a time; by default ten on a GPU and one elsewhere, where they would only share the cores.
        resume, force, device, cache, data: as in `run`.
        callback: called at the events of every run.
    """
    where = find_device(device)
    shared = _SharedSplits(lambda spec: load_splits(spec, where, cache, data))

    def start(index: int, restarted: bool) -> ActiveRun:
        spec = specs[index]
        run = Run(spec, out, where, resume=resume or restarted, force=force and not restarted, callback=callback)
        return ActiveRun(run, run.steps(partial(shared.load, spec)))

    scheduler = Scheduler(len(specs), width or (10 if where.type == "cuda" else 1), start)
    return scheduler.run(MemoryBudget(partial(_free_memory, where)), partial(_release_memory, where))


@dataclass(frozen=True)
class ActiveRun:
    """A run that has started, and the generator of its steps."""

    run: Run
    steps: Generator[None, None, None]


class MemoryBudget:
    """Whether the device has memory for another run, by what the active ones take.

    A run takes more as it meets new shapes and is scored for the first time, hence the half on top; what is misjudged
    all the same is mended when memory runs out.

    Args:
        free_memory: returns the free bytes of the device; infinity where they are not counted.
    """

    def __init__(self, free_memory: Callable[[], float]) -> None:
        self._free_memory = free_memory
        self._initial = free_memory()

    def has_room(self, active: int) -> bool:
        """Whether one more run would fit beside `active` runs."""
        free = self._free_memory()
        return not active or free == math.inf or free > 1.5 * (self._initial - free) / active


class Scheduler:
    """Runs that wait and runs that are active, so many at a time.

    Args:
        count: number of runs, which are known by their index.
        width: how many at a time; lowered when memory runs out.
        start: starts the run at an index, or restarts it after it had to make room for others.
    """

    def __init__(self, count: int, width: int, start: Callable[[int, bool], ActiveRun]) -> None:
        self.width, self._start = width, start
        self.waiting = deque((index, False) for index in range(count))
        self.active: dict[int, ActiveRun] = {}
        self.result = FleetResult()

    def run(self, budget: MemoryBudget, release_memory: Callable[[], None]) -> FleetResult:
        """Start and advance runs in turn until all have ended; memory is released after each."""
        try:
            while self.waiting or self.active:
                self._start_next(budget)
                for index in list(self.active):
                    if self._advance(index):
                        release_memory()
        finally:
            for active in self.active.values():
                active.steps.close()
        return self.result

    def _start_next(self, budget: MemoryBudget) -> None:
        """Start a waiting run if there is room: one at a time, so that it shows what each takes."""
        if self.waiting and len(self.active) < self.width and budget.has_room(len(self.active)):
            index, restarted = self.waiting.popleft()
            self.active[index] = self._start(index, restarted)

    def _advance(self, index: int) -> bool:
        """Let a run take a step; whether it has ended, one way or another."""
        active = self.active[index]
        try:
            next(active.steps)
            return False
        except StopIteration:
            self.result.records[index] = active.run.record
        except torch.OutOfMemoryError:
            self._postpone(index)
        except Exception as problem:
            self.result.failures[index] = _clear_frames(problem)
        del self.active[index]
        return True

    def _postpone(self, index: int) -> None:
        """Put a run back among those that wait, to resume from its checkpoint; a run alone fails."""
        if len(self.active) == 1:
            self.result.failures[index] = OutlandError("the GPU has not enough memory for this run alone")
            return
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


def _free_memory(device: torch.device) -> float:
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else math.inf


def _release_memory(device: torch.device) -> None:
    """Free what an ended run held. Its parts point at one another, so that it takes the garbage collector."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()


class _SharedSplits:
    """Splits that several runs read, loaded once."""

    def __init__(self, load: Callable[[RunSpec], Splits]) -> None:
        self._load = load
        self._loaded: dict[object, Splits] = {}

    def load(self, spec: RunSpec) -> Splits:
        key = (spec.dataset, spec.domain, spec.kind, spec.data, spec.table)
        if key not in self._loaded:
            self._loaded[key] = self._load(spec)
        return self._loaded[key]
