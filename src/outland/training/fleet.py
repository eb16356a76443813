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
from outland.spec import RunSpec
from outland.training.callbacks import Callback
from outland.training.record import RunRecord
from outland.training.runs import Run, load_splits

Sailing = tuple[Run, Generator[None, None, None]]  # a run, and its steps as they are taken


@dataclass
class Fleet:
    """What became of the runs.

    Args:
        records: of those that ended well, by their place in the list of specs.
        failures: why the others did not.
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
) -> Fleet:
    """Carry out runs side by side in one process, each with its own queue, memory pool and random numbers.

    Each gives what it would give alone. A run that fails does not disturb the others; one for which there is no memory
    waits until there is.

    Args:
        specs: what to do.
        out: folder of runs.
        width: how many at a time; by default ten on a GPU and one elsewhere, where they would only share the cores.
        resume, force, device, cache, data: as in `run`.
        callback: told of every epoch of every run.
    """
    where = find_device(device)
    shared = _Shared(lambda spec: load_splits(spec, where, cache, data))

    def launch(place: int, again: bool) -> Sailing:
        spec = specs[place]
        run = Run(spec, out, where, resume=resume or again, force=force and not again, callback=callback)
        return run, run.steps(partial(shared.of, spec))

    fleet = _Crowd(len(specs), width or (10 if where.type == "cuda" else 1), launch)
    room = _Room(where)
    try:
        while fleet.waiting or fleet.sailing:
            fleet.fill(room.for_another)
            for place in list(fleet.sailing):
                if fleet.advance(place):
                    _free(where)
    finally:
        for _, steps in fleet.sailing.values():
            steps.close()
    return fleet.result


class _Crowd:
    """Runs that wait and runs that are on their way, so many at a time.

    Args:
        count: of runs, which are known by their places.
        width: how many at a time; lowered when memory runs out.
        launch: begins the run at a place, or begins it again where it had to make room for others.
    """

    def __init__(self, count: int, width: int, launch: Callable[[int, bool], Sailing]) -> None:
        self.width, self._launch = width, launch
        self.waiting = deque((place, False) for place in range(count))
        self.sailing: dict[int, Sailing] = {}
        self.result = Fleet()

    def fill(self, room: Callable[[int], bool]) -> None:
        """Launch another if there is room: one at a time, so that it shows what each takes."""
        if self.waiting and len(self.sailing) < self.width and room(len(self.sailing)):
            place, again = self.waiting.popleft()
            self.sailing[place] = self._launch(place, again)

    def advance(self, place: int) -> bool:
        """Let one run take a step; whether it has ended, one way or another."""
        run, steps = self.sailing[place]
        try:
            next(steps)
            return False
        except StopIteration:
            self.result.records[place] = run.record
        except torch.OutOfMemoryError:
            self._make_room(place)
        except Exception as problem:
            self.result.failures[place] = _loosened(problem)
        del self.sailing[place]
        return True

    def _make_room(self, place: int) -> None:
        """A run goes back to those that wait; what it had done is still there."""
        if len(self.sailing) == 1:
            self.result.failures[place] = OutlandError("the GPU has not enough memory for this run alone")
            return
        self.width = len(self.sailing) - 1
        say(f"The GPU's memory is full: from here on {self.width} runs at a time", "yellow")
        self.waiting.append((place, True))


def _loosened(problem: Exception) -> Exception:
    """The problem, and those it came from, without what their frames hold: the whole run."""
    each: BaseException | None = problem
    while each is not None:
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__
    return problem


class _Room:
    """Whether the device has memory for another run, by what those on their way take.

    A run takes more as it meets new shapes and is scored for the first time, hence the half on top; what is misjudged
    all the same is mended when memory runs out.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._free = self._now()

    def _now(self) -> float:
        return float(torch.cuda.mem_get_info(self._device)[0]) if self._device.type == "cuda" else math.inf

    def for_another(self, sailing: int) -> bool:
        """Whether one more would fit beside so many."""
        free = self._now()
        return not sailing or free == math.inf or free > 1.5 * (self._free - free) / sailing


def _free(device: torch.device) -> None:
    """Give back what a run had. Its parts point at one another, so that it takes the collector to let them go."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()


class _Shared:
    """Data that several runs read, loaded once."""

    def __init__(self, load: Callable[[RunSpec], Splits]) -> None:
        self._load = load
        self._kept: dict[object, Splits] = {}

    def of(self, spec: RunSpec) -> Splits:
        """The data of a spec."""
        key = (spec.dataset, spec.domain, spec.kind, spec.data, spec.table)
        if key not in self._kept:
            self._kept[key] = self._load(spec)
        return self._kept[key]
