"""Timings of several functions that take turns in one process, so that a busy machine slows all of them alike."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Made = TypeVar("Made")


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Timings(dict[str, list[float]]):
    """Milliseconds a call of every function, round by round."""

    def ms(self, name: str) -> float:
        """The median over rounds."""
        return statistics.median(self[name])

    def ratio(self, numerator: str = "ours", denominator: str = "plain") -> float:
        """The median over rounds of the ratio within a round, when the machine is the same."""
        return statistics.median(a / b for a, b in zip(self[numerator], self[denominator], strict=True))


def time_in_turns(
    functions: dict[str, Callable[[], Any]], device: torch.device, rounds: int, calls: int, warmup: int = 3
) -> Timings:
    """Call each function so many times a round, after some calls to warm up."""
    timings = Timings({name: [] for name in functions})
    for function in functions.values():
        for _ in range(warmup):
            function()
    for _ in range(rounds):
        for name, function in functions.items():
            synchronize(device)
            started = time.perf_counter()
            for _ in range(calls):
                function()
            synchronize(device)
            timings[name].append((time.perf_counter() - started) / calls * 1e3)
    return timings


def peak_memory(device: torch.device, make: Callable[..., Made], *args: Any) -> tuple[Made, float | None]:
    """`make(*args)`, and the most memory that it took of the device meanwhile, in MB; None on a CPU."""
    if device.type != "cuda":
        return make(*args), None
    gc.collect()  # frees what was made before
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    made = make(*args)
    return made, round((torch.cuda.max_memory_allocated(device) - before) / 1e6, 1)
