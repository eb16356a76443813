"""Many runs side by side on one device: while one waits to be read, the others keep it busy."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.graphs import Cache, Splits
from outland.progress import console
from outland.training.record import RunRecord
from outland.training.runs import Run, find_device, load_splits
from outland.training.spec import RunSpec
from outland.training.watch import Watcher


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
    watcher: Watcher | None = None,
) -> Fleet:
    """Carry out runs side by side in one process, each with its own queue, memory pool and random numbers.

    Each gives what it would give alone. A run that fails does not disturb the others; one for which there is no memory
    waits until another has ended.

    Args:
        specs: what to do.
        out: folder of runs.
        width: how many at a time; by default ten on a GPU and one elsewhere, where they would only share the cores.
        resume, force, device, cache, data: as in `run`.
        watcher: told of every epoch of every run.
    """
    where = find_device(device)
    width = width or (10 if where.type == "cuda" else 1)
    shared = _Shared(lambda spec: load_splits(spec, where, cache, data))
    result, waiting = Fleet(), deque(enumerate(specs))
    sailing: dict[int, tuple[Run, Generator[None, None, None]]] = {}
    begun: set[int] = set()
    try:
        while waiting or sailing:
            while waiting and len(sailing) < width:
                place, spec = waiting.popleft()
                again = place in begun  # it made room for others: what it had done is still there
                run = Run(spec, out, where, resume=resume or again, force=force and not again, watcher=watcher)
                sailing[place] = run, run.steps(partial(shared.of, spec))
                begun.add(place)
            for place, (run, steps) in list(sailing.items()):
                try:
                    next(steps)
                    continue
                except StopIteration:
                    result.records[place] = run.record
                except torch.OutOfMemoryError:
                    if len(sailing) == 1:
                        result.failures[place] = OutlandError("the GPU has not enough memory for this run alone")
                    else:
                        width = len(sailing) - 1
                        console().print(f"[yellow]The GPU's memory is full: from here on {width} runs at a time[/]")
                        waiting.append((place, specs[place]))
                except Exception as problem:
                    result.failures[place] = problem
                del sailing[place], run, steps
                _free(where)
    finally:
        for _, steps in sailing.values():
            steps.close()
    return result


def _free(device: torch.device) -> None:
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
        key = (spec.dataset, spec.shift, spec.kind, spec.data, spec.table)
        if key not in self._kept:
            self._kept[key] = self._load(spec)
        return self._kept[key]
