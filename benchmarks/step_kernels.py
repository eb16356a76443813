"""What a training step and an evaluation of some cells launch on a GPU, and how long each kernel takes.

    .venv/bin/python benchmarks/step_kernels.py ERM/motif-base "AIA (released)/motif-base" [--rows 32]

Steps are replayed as in a run, alone on the device. Microseconds are of a step, or of an evaluation of all parts.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from study import endless_steps
from torch.profiler import ProfilerActivity, profile

from outland.devices import find_device
from outland.spec import load_splits
from outland.studies import find_study
from outland.training.capture import Event
from outland.training.runs import Training

STEPS = 24


def report(name: str, work: Callable[[], None], times: int, most: int) -> None:
    """Time by the clock, and the kernels that take longest."""
    work()
    torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    torch.cuda.synchronize()
    clock = (time.perf_counter() - started) / times
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        work()
        torch.cuda.synchronize()
    events = [event for event in profiled.key_averages() if event.self_device_time_total > 0]
    events.sort(key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in events) / times
    launches = sum(event.count for event in events) / times
    print(f"{name}: {1e3 * clock:.3f} ms by the clock, {total:.0f} µs in {launches:.0f} launches")
    for event in events[:most]:
        print(f"  {event.self_device_time_total / times:8.1f} {event.count / times:6.1f}  {event.key[:100]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="+", metavar="ROW/COLUMN")
    parser.add_argument("--study", default="covariate")
    parser.add_argument("--rows", type=int, default=32, help="kernels to list")
    arguments = parser.parse_args()
    device = find_device("cuda")
    cells = find_study(arguments.study).with_newer().cells(1, [], arguments.cells)
    for cell in cells:
        spec = cell.specs[0]
        training = Training(spec, load_splits(spec, device), device)
        training.trainer.method.reseed(0, device)
        steps = endless_steps(training)
        for _ in range(len(training.trainer.batches) + 1):  # every shape is captured
            next(steps)

        def some_steps(steps: Iterator[Event | None] = steps) -> None:
            for _ in islice(steps, STEPS):
                pass

        report(f"{cell.name}, a step", some_steps, STEPS, arguments.rows)
        report(f"{cell.name}, an evaluation", training.trainer.evaluation.run, 1, arguments.rows)


if __name__ == "__main__":
    main()
