"""What large jobs would take on a cluster: measured unit costs, our own cutting of the work, machines that fail.

    python benchmarks/scale.py

Writes `benchmarks/scale.json`, which `docs/scale.md` quotes. The clock is simulated: a few seconds here stand for weeks
there. Unit costs are measured elsewhere (`units.py`, `speed.py`, `predict.py`); what is assumed stands at the top.
"""

import heapq
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from outland.chem.featurizer import ATOMS, BONDS
from outland.graphs import Schema, Task
from outland.methods import build_method
from outland.nn import BackboneSettings
from outland.recipes import DatasetSize, recipe_for
from outland.studies import find_study
from outland.studies.durations import graph_seconds, run_seconds
from outland.studies.engines.ray import MAX_RETRIES
from outland.studies.jobs import Job, shard, split_jobs

HERE = Path(__file__).parent
OUT = HERE / "scale.json"
HOUR = 3600.0
START = 15.0  # seconds to begin a task: imports, and the set from the cache (measured: 4 s and, for a gigabyte, 2 s)
AWAY = 1800.0  # seconds that a machine that failed is away
MOLECULES_A_CORE = 2433 / 2  # predicted a second, measured with one million on two shared cores
SET = DatasetSize(
    train=10**6, scored=250_000, nodes=25.5, edges=54.9
)  # graphs like those of the HIV screen, a fifth of them to score
EPOCHS = 100


@dataclass
class Work:
    """Something for one worker.

    Args:
        seconds: that it takes where nothing goes wrong.
        saved: seconds after which it is saved each time; infinity where it is not, until it is whole.
        tries: how often it was begun.
    """

    seconds: float
    saved: float
    left: float = field(init=False)
    tries: int = 0

    def __post_init__(self) -> None:
        self.left = self.seconds


@dataclass
class Cluster:
    """Machines, each with so many workers, that fail once in `between` hours on average."""

    machines: int
    workers: int
    between: float


class Simulation:
    """Tasks are started in order wherever a worker is free; a machine that fails loses its tasks' unsaved work."""

    def __init__(self, tasks: list[Work], cluster: Cluster, seed: int = 0) -> None:
        self.tasks, self.cluster, self.generator = tasks, cluster, random.Random(seed)
        self.now = self.lost = self.done_at = 0.0
        self.given_up, self.open_tasks, self.waiting = 0, len(tasks), list(reversed(tasks))
        machines = range(cluster.machines)
        self.free = [(machine, worker) for machine in reversed(machines) for worker in range(cluster.workers)]
        self.failures = [0] * cluster.machines
        self.running: list[dict[int, tuple[Work, float]]] = [{} for _ in machines]
        self.events: list[tuple[float, str, int, int, int]] = []  # time, kind, machine, worker, failures of the machine
        for machine in machines:
            self._plan_failure(machine)

    def run(self) -> dict[str, float]:
        """Hours until all tasks are done, and how the workers spent them."""
        while self.open_tasks:
            self._start_tasks()
            self.now, kind, machine, worker, failures = heapq.heappop(self.events)
            if kind == "back":
                self.free += [(machine, slot) for slot in range(self.cluster.workers)]
                self._plan_failure(machine)
            elif kind == "done" and failures == self.failures[machine]:
                self.running[machine].pop(worker)
                self.free.append((machine, worker))
                self.open_tasks, self.done_at = self.open_tasks - 1, self.now
            elif kind == "fail":
                self._fail(machine)
        workers = self.cluster.machines * self.cluster.workers
        return {
            "hours": self.done_at / HOUR,
            "worker_hours": self.done_at / HOUR * self.cluster.machines * self.cluster.workers,
            "busy_share": sum(work.seconds for work in self.tasks) / workers / self.done_at,
            "lost_worker_hours": self.lost / HOUR,
            "begun_again": sum(work.tries - 1 for work in self.tasks),
            "given_up": self.given_up,
        }

    def _plan_failure(self, machine: int) -> None:
        after = self.generator.expovariate(1 / (self.cluster.between * HOUR))
        heapq.heappush(self.events, (self.now + after, "fail", machine, 0, 0))

    def _start_tasks(self) -> None:
        while self.waiting and self.free:
            machine, worker = self.free.pop()
            work = self.waiting.pop()
            work.tries += 1
            self.running[machine][worker] = (work, self.now)
            end = self.now + START + work.left
            heapq.heappush(self.events, (end, "done", machine, worker, self.failures[machine]))

    def _fail(self, machine: int) -> None:
        self.failures[machine] += 1
        self.free = [slot for slot in self.free if slot[0] != machine]
        for work, begun in self.running[machine].values():
            worked = max(0.0, self.now - begun - START)
            saved = min(work.left, worked // work.saved * work.saved) if work.saved < math.inf else 0.0
            self.lost += self.now - begun - saved
            work.left -= saved
            if work.tries > MAX_RETRIES:
                self.given_up, self.open_tasks = self.given_up + 1, self.open_tasks - 1
            else:
                self.waiting.append(work)
        self.running[machine] = {}
        heapq.heappush(self.events, (self.now + AWAY, "back", machine, 0, 0))


def often(tasks: list[tuple[float, float]], cluster: Cluster, times: int = 50) -> dict[str, float]:
    """The mean over so many histories of failures, and the hours of the second worst in twenty."""
    histories = [Simulation([Work(*task) for task in tasks], cluster, seed).run() for seed in range(times)]
    mean = {name: sum(history[name] for history in histories) / times for name in histories[0]}
    return {**mean, "hours_at_worst": sorted(history["hours"] for history in histories)[int(0.9 * times)]}


def gpu_run(method: str, beside: int = 10) -> float:
    """Seconds of a run's share of an H200 with so many side by side, from the measured step on Motif at width 300.

    One run and ten were measured; between them the cost of being alone is taken to be shared out.
    """
    rows = json.loads((HERE / "speed-h200.json").read_text())["fleet"]
    steps = {
        row["runs"]: row["ms_a_run_step"] / 1e3 / row["batch_size"]
        for row in rows
        if (row["method"], row["family"], row["batch_size"]) == ("erm", "motif", 512)
    }
    step = steps[10] + (steps[1] - steps[10]) * (1 / beside - 0.1) / 0.9
    motif = recipe_for("motif")
    assert motif is not None
    nodes = motif.dataset_size("motif", "base", "covariate")
    assert nodes is not None
    return _run(step * SET.nodes / nodes.nodes, method)


def cpu_run(method: str, width: int = 300) -> float:
    """Seconds of a run on one thread."""
    return _run(graph_seconds(SET, BackboneSettings(width=width))[0], method)


def _run(step: float, method: str) -> float:
    """Seconds of a run whose training step takes so long a graph; a forward pass takes its usual share of that."""
    reference, forward = graph_seconds(SET, BackboneSettings())
    return run_seconds(method, EPOCHS, SET.train * step, SET.scored * step * forward / reference)


def jobs() -> list[Job]:
    """17 methods of ten seeds, as the study has them."""
    study = find_study("covariate")
    return [Job(study, cell, cell.specs) for cell in study.cells(10, ["backbone.width=300"], ["molhiv-scaffold"])]


def checkpoint_bytes() -> dict[str, int]:
    """Bytes of a checkpoint: weights, the best weights, and Adam's two moments."""
    schema, sizes = Schema(ATOMS, Task("binary", 1, "rocauc"), BONDS, 10), {}
    for job in jobs():
        spec = job.specs[0]
        with torch.device("meta"):
            method = build_method(spec.method, schema, spec.backbone, spec.method_params)
        weights = sum(parameter.numel() for parameter in method.parameters())
        state = sum(tensor.numel() for tensor in method.state_dict().values())
        sizes[spec.method] = 4 * (2 * state + 2 * weights)
    return sizes


def predicting() -> list[dict[str, Any]]:
    """10^8 molecules, cut into tables of different lengths: a task is a table, and is whole or not there."""
    rows = []
    for length in (10**4, 10**5, 10**6, 10**7):
        for machines in (4, 32):
            tasks = [(length / MOLECULES_A_CORE, math.inf)] * (10**8 // length)
            rows.append({"rows_a_table": length, "cores": 16 * machines, **often(tasks, Cluster(machines, 16, 5.0))})
    return rows


def training_on_gpus() -> list[dict[str, Any]]:
    """10^6 graphs x 17 methods x 10 seeds on machines of eight H200, by cells and as they are dealt."""
    rows = []
    for gpus in (8, 32, 64, 168):
        for between in (1000.0, 5.0):
            for cut in ("cells", "dealt"):
                tasks = jobs() if cut == "cells" else split_jobs(jobs(), gpus)
                lengths = [len(job.specs) * gpu_run(job.specs[0].method, len(job.specs)) for job in tasks]
                mean = often([(length, length / EPOCHS) for length in lengths], Cluster(gpus // 8, 8, between))
                rows.append(
                    {"gpus": gpus, "hours_between_failures": between, "cut": cut, "tasks": len(lengths), **mean}
                )
    return rows


def training_on_cores() -> list[dict[str, Any]]:
    """The same on single cores, a run each, as a job array would be: whoever has a shard does its runs in turn."""
    rows = []
    for tasks in (170, 85):
        study = find_study("covariate")
        cells = study.cells(10, ["backbone.width=300"], ["molhiv-scaffold"])
        shards = [shard(cells, f"{number}/{tasks}") for number in range(1, tasks + 1)]
        runs = [[spec.method for cell in part for spec in cell.specs] for part in shards]
        works = [(sum(map(cpu_run, part)), cpu_run(part[0]) / EPOCHS) for part in runs]
        rows.append({"cores": tasks, "hours_between_failures": 1000.0, **often(works, Cluster(tasks, 1, 1000.0))})
    return rows


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value


def main() -> None:
    sizes = checkpoint_bytes()
    runs = {job.specs[0].method: gpu_run(job.specs[0].method) for job in jobs()}
    rates = [sizes[name] / (seconds / EPOCHS) for name, seconds in runs.items()]  # of a whole GPU, whatever runs on it
    results = {
        "about": "simulated by benchmarks/scale.py on measured unit costs",
        "predicted": {"molecules_a_core_second": MOLECULES_A_CORE, "core_hours": 1e8 / MOLECULES_A_CORE / HOUR},
        "run_on_a_gpu_hours": {name: seconds / HOUR for name, seconds in runs.items()},
        "run_on_a_core_hours": {name: cpu_run(name) / HOUR for name in runs},
        "all_runs_gpu_hours": 10 * sum(runs.values()) / HOUR,
        "all_runs_core_hours": 10 * sum(cpu_run(name) for name in runs) / HOUR,
        "checkpoint_megabytes": {name: size / 1e6 for name, size in sizes.items()},
        "checkpoint_megabytes_a_second_a_gpu": {"least": min(rates) / 1e6, "most": max(rates) / 1e6},
        "predicting": predicting(),
        "training_on_gpus": training_on_gpus(),
        "training_on_cores": training_on_cores(),
    }
    OUT.write_text(json.dumps(rounded(results), indent=1) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
