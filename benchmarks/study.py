"""A study on this machine: its time by the clock, how busy the device was, and what its steps alone would take.

    .venv/bin/python benchmarks/study.py --only molbbbp --minutes 9 --out studies --json benchmarks/study-h200.json
    .venv/bin/python benchmarks/study.py --only molbbbp --steps-only --json benchmarks/study-h200.json

The second form takes the steps and evaluations of every cell at fleet speed, without anything around them: several runs
of the cell side by side, as many as the schedule admits, until the clock has been running for `--seconds`.
"""

import argparse
import json
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import torch

from outland.devices import find_device
from outland.spec import load_splits
from outland.studies import find_study
from outland.studies.base import Cell
from outland.studies.gpu_costs import gpu_load
from outland.studies.runner import run_study
from outland.training.capture import Event
from outland.training.record import describe_platform
from outland.training.runs import Training
from outland.training.scheduler import CAPACITY, WIDTH


class Utilisation:
    """Per cent of the time in which the GPU had work, sampled ten times a second; none without `nvidia-smi`."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"]
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except FileNotFoundError:
            return
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            if line.strip().isdigit():
                self.samples.append(int(line))

    def mean(self) -> float | None:
        return round(statistics.fmean(self.samples), 1) if self.samples else None


def whole_study(cells: list[Cell], arguments: argparse.Namespace) -> dict:
    """Run what is missing of the cells, and tell how long that took."""
    estimate = sum(gpu_load(spec).seconds for cell in cells for spec in cell.specs)
    utilisation, started = Utilisation(), time.perf_counter()
    seconds = None if arguments.minutes is None else 60 * arguments.minutes
    outcome = run_study(find_study(arguments.study), cells, arguments.out, device=arguments.device, seconds=seconds)
    wall = time.perf_counter() - started
    return {
        "cells": len(cells),
        "executed": len(outcome.executed),
        "states": dict(outcome.states),
        "failures": outcome.failures,
        "wall_s": round(wall, 1),
        "estimate_s": round(estimate, 1),
        "utilisation": utilisation.mean(),
    }


def endless_steps(training: Training) -> Iterator[Event | None]:
    """The steps of a training, epoch after epoch, with a pause after each."""
    trainer = training.trainer
    steps = trainer.new_steps()
    for number in count():
        yield from trainer.capture.on_stream(steps.epoch(number, training.spec.train.epochs))


def fleet_steps(cell: Cell, seconds: float, device: torch.device) -> dict:
    """Milliseconds a step and an evaluation of one run among as many as share the device."""
    spec = cell.specs[0]
    runs = max(1, min(WIDTH, int(CAPACITY / gpu_load(spec).share)))
    splits = load_splits(spec, device)
    trainings = [Training(spec, splits, device) for _ in range(runs)]
    for training in trainings:
        training.trainer.method.reseed(0, device)
    walks = [endless_steps(training) for training in trainings]
    per_epoch = len(trainings[0].trainer.batches)
    for walk in walks:  # every shape is captured before the clock starts
        for _ in range(per_epoch + 1):
            next(walk)
    torch.cuda.synchronize()
    started, taken = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for _ in range(8):
            for walk in walks:
                next(walk)
        taken += 8 * runs
    torch.cuda.synchronize()
    step = (time.perf_counter() - started) / taken
    evaluations = [training.trainer.evaluation for training in trainings]
    for evaluation in evaluations:
        evaluation.run()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(3):
        for evaluation in evaluations:
            evaluation.run()
    torch.cuda.synchronize()
    evaluation_seconds = (time.perf_counter() - started) / (3 * runs)
    run_seconds = spec.train.epochs * (per_epoch * step + evaluation_seconds)
    return {
        "runs": runs,
        "step_ms": round(1e3 * step, 4),
        "evaluation_ms": round(1e3 * evaluation_seconds, 3),
        "run_s": round(run_seconds, 3),
        "cell_s": round(run_seconds * len(cell.specs), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="covariate")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--set", nargs="*", default=[], dest="words")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--steps-only", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("studies"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/study.json"))
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    cells = find_study(arguments.study).cells(arguments.seeds, arguments.words, arguments.only)
    results: dict = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    results["platform"] = describe_platform(device)
    if arguments.steps_only:
        rows = results.setdefault("steps", {})
        for cell in cells:
            rows[cell.name] = fleet_steps(cell, arguments.seconds, device)
            print(cell.name, rows[cell.name], flush=True)
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    else:
        name = " ".join(arguments.only) or arguments.study
        results.setdefault("studies", {})[name] = whole_study(cells, arguments)
        print(name, results["studies"][name], flush=True)
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
