"""Many runs side by side on one device: while one waits to be read, the others keep it busy."""

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.graphs import Cache, Splits
from outland.spec import RunSpec, data_key, load_splits
from outland.stopping import stop_on_sigterm
from outland.training.callbacks import Callback
from outland.training.capture import CaptureSlot
from outland.training.runs import Run
from outland.training.scheduler import WIDTH, ActiveRun, FleetResult, Load, MemoryBudget, Scheduler


def run_fleet(
    specs: Sequence[RunSpec],
    out: Path | str,
    *,
    width: int | None = None,
    loads: Sequence[Load] | None = None,
    resume: bool = True,
    force: bool = False,
    device: str = "auto",
    cache: Cache | None = None,
    data: DataFolder | None = None,
    callback: Callback | None = None,
    on_failure: Callable[[int, Exception], None] = lambda index, problem: None,
) -> FleetResult:
    """Execute runs side by side in one process, each with its own CUDA stream, memory pool and random numbers.

    Each gives what it would give alone. A run that fails does not disturb the others; one for which there is no memory
    waits until there is. When training is asked to stop (see `outland.stopping`), each ends its epoch. The seconds in
    the records are of the device: those by the clock, divided among the runs of this process that were active by the
    cost of their steps, of which `loads` has estimates.

    Args:
        specs: the runs, of any methods and datasets.
        out: folder of runs.
        width: how many at a time, at most; by default ten on a GPU and one elsewhere, where they would only share the
            cores.
        loads: what each run asks of the device: the longest start first, as many as fill it. By default all ask the
            same.
        resume, force, device, cache, data: as in `run`.
        callback: called at the events of every run.
        on_failure: called with the index and the exception of a run that failed; what it raises ends the fleet.
    """
    where = find_device(device)
    shared = _SharedSplits(specs, lambda spec: load_splits(spec, where, cache, data))

    def start(index: int, restarted: bool) -> ActiveRun:
        spec = specs[index]
        run = Run(spec, out, where, resume=resume or restarted, force=force and not restarted, callback=callback)
        active = ActiveRun(run, run.steps(partial(shared.load, spec)))
        run.clock = lambda: scheduler.device_seconds(active)
        return active

    width = width or (WIDTH if where.type == "cuda" else 1)
    scheduler = Scheduler(loads or [Load()] * len(specs), width, start, on_failure, shared.drop)
    with stop_on_sigterm(), _frozen_heap():
        return scheduler.run(MemoryBudget(partial(_free_memory, where), partial(_release_memory, where)))


def _free_memory(device: torch.device) -> float:
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else math.inf


def _release_memory(device: torch.device) -> None:
    """Free what ended runs held. Their parts point at one another, so that it takes the garbage collector."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # no graph may end before its replays
    gc.collect()
    if device.type == "cuda":
        CaptureSlot.drop_unused()
        torch.cuda.empty_cache()


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Context in which the garbage collector passes over what exists already: modules, mostly, which take it long."""
    gc.collect()
    if gc.get_freeze_count():  # the caller sees to it
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def keep_splits() -> None:
    """Keep the splits that a fleet loaded last for the next fleet of this process: workers get one run at a time."""
    _SharedSplits.kept = {} if _SharedSplits.kept is None else _SharedSplits.kept


class _SharedSplits:
    """Splits that several runs read, loaded once and dropped after the last of them, unless they are `kept`."""

    kept: ClassVar[dict[object, Splits] | None] = None  # those loaded last, by what they are

    def __init__(self, specs: Sequence[RunSpec], load: Callable[[RunSpec], Splits]) -> None:
        self._specs, self._load = specs, load
        self._users = Counter(map(data_key, specs))
        self._loaded: dict[object, Splits] = {}

    def load(self, spec: RunSpec) -> Splits:
        key, kept = data_key(spec), self.kept
        if key not in self._loaded:
            self._loaded[key] = kept[key] if kept and key in kept else self._load(spec)
        if kept is not None:
            kept.clear()
            kept[key] = self._loaded[key]
        return self._loaded[key]

    def drop(self, index: int) -> None:
        """The run at `index` has ended."""
        key = data_key(self._specs[index])
        self._users[key] -= 1
        if not self._users[key]:
            self._loaded.pop(key, None)
