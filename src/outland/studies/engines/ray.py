"""Runs on a Ray cluster: tasks that say what they need, tried again when a machine is lost."""

import math
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from outland.errors import CannotWrite, OutlandError
from outland.studies.engines import Job, Site
from outland.studies.engines.parcels import Parcel, pack, unpack
from outland.studies.jobs import deal
from outland.studies.ledger import Ledger
from outland.studies.watch import StudyProgress

_TRIES = 5  # times that a task is begun again after the machine or the process it was on is lost
_PATIENCE = 60.0  # seconds to wait for a process that holds a run, and may be about to be gone


@dataclass(frozen=True)
class RayEngine:
    """A cluster.

    Args:
        address: of its head, as `ray start` prints it; None takes `RAY_ADDRESS`, or makes a cluster of this machine.
        cpus, gpus: what each task needs. With a GPU a task is a whole cell, whose runs train side by side, or a part of
            one where there are more GPUs than cells; without, a single run. None asks for a GPU where there are any.
        send_back: workers write to folders of their own and send what they made back here, for machines that share no
            folder. Otherwise they write to the folder of studies, which all of them must see by the same name; what a
            lost machine had done up to its last checkpoint is then not done again.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float | None = None
    send_back: bool = False

    def carry_out(self, jobs: Sequence[Job], site: Site, callback: StudyProgress) -> None:
        """Carry out all jobs."""
        if not jobs:
            return
        site = replace(site, out=site.out.resolve())
        with _connected(self.address) as ray:
            gpus = self._gpus(ray, site.device)
            site = replace(site, device="cuda" if gpus else "cpu")
            tasks = deal(jobs if gpus else [one for job in jobs for one in job.single()], self._workers(ray, gpus))
            work = ray.remote(num_cpus=self.cpus, num_gpus=gpus, max_retries=_TRIES)(_work)
            with callback.looking(tasks, site.out):
                pending = {
                    work.remote(job, site, self.cpus, self._luggage(job, site) if self.send_back else None): job
                    for job in tasks
                }
                while pending:
                    (ready, *_), _ = ray.wait(list(pending))
                    for words in _arrived(ray, ready, pending.pop(ready), site):
                        callback.say(words)

    def _gpus(self, ray: Any, device: str) -> float:
        """GPUs a task, once it is sure that some machine has what a task needs."""
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        wanted = self.gpus
        if wanted is None:
            wanted = float(device != "cpu" and any(machine.get("GPU", 0) >= 1 for machine in machines))
        if not any(machine.get("CPU", 0) >= self.cpus and machine.get("GPU", 0) >= wanted for machine in machines):
            raise OutlandError(
                f"no machine of the cluster has {self.cpus:g} CPUs and {wanted:g} GPUs: "
                "ask for less by --cpus and --gpus"
            )
        return wanted

    def _workers(self, ray: Any, gpus: float) -> int:
        """How many tasks the cluster can carry out at a time."""
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        by_gpu = (machine.get("GPU", 0) / gpus if gpus else math.inf for machine in machines)
        by_cpu = (machine.get("CPU", 0) / self.cpus if self.cpus else math.inf for machine in machines)
        rooms = [min(*pair) for pair in zip(by_gpu, by_cpu, strict=True)]
        return int(sum(room for room in rooms if room < math.inf))

    @staticmethod
    def _luggage(job: Job, site: Site) -> Parcel:
        """What is there of the runs already, so that it is not done again."""
        return pack(Ledger(job.study, site.out).runs, [spec.slug for spec in job.specs])


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    try:
        import ray
    except ImportError:
        raise OutlandError("--engine ray needs the package ray: pip install 'outland[ray]'") from None
    try:
        _knock(address)
        ray.init(address=address, logging_level="error", log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as problem:
        raise OutlandError(f"cannot reach a Ray cluster at {address}: {problem}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str | None) -> None:
    """Fail at once where nobody answers: Ray itself would go on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _arrived(ray: Any, task: Any, job: Job, site: Site) -> list[str]:
    """Take in what a task has made; what went wrong, if anything did."""
    ledger = Ledger(job.study, site.out)
    try:
        told, parcel = ray.get(task)
    except ray.exceptions.RayTaskError as problem:  # the task itself went wrong, wherever it was
        cause = problem.cause if isinstance(problem.cause, Exception) else OutlandError(str(problem))
        if isinstance(cause, CannotWrite):
            raise cause from None
        errors = [ledger.fail(spec, cause) for spec in job.specs]
        return [f"{job.cell.name}: {error}" for error in errors if error is not None]
    except ray.exceptions.RayError as problem:
        first = str(problem).strip().splitlines()[0]
        lost = OutlandError(f"the task was lost {_TRIES + 1} times, or could not be begun: {first}")
        errors = [ledger.fail(spec, lost) for spec in job.specs]
        return [f"{job.cell.name}: {error}" for error in errors if error is not None]
    if parcel is not None:
        unpack(parcel, ledger.runs)
        for spec in job.specs:
            if ledger.record(spec) is not None:
                ledger.folder(spec).checkpoints.clear()  # those that travelled to the worker are done with
    words: list[str] = told
    return words


def _work(job: Job, site: Site, cpus: float, luggage: Parcel | None) -> tuple[list[str], Parcel | None]:
    """What a worker does; it may be on another machine."""
    torch.set_num_threads(max(1, int(cpus)))
    if luggage is None:
        return _patiently(job, site), None
    scratch = Path(tempfile.mkdtemp(prefix="outland-"))
    try:
        site = replace(site, out=scratch)
        runs = Ledger(job.study, scratch).runs
        unpack(luggage, runs)
        return job.carry_out(site), pack(runs, [spec.slug for spec in job.specs])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _patiently(job: Job, site: Site) -> list[str]:
    """Carry a job out; a run may still be held by a process of a machine that is about to be gone."""
    ledger, until, told = Ledger(job.study, site.out), time.monotonic() + _PATIENCE, list[str]()
    while True:
        told += job.carry_out(site)
        left = tuple(spec for spec in job.specs if ledger.state(job.cell, spec) not in ("done", "failed"))
        if not left or time.monotonic() > until:
            return told
        job = replace(job, specs=left)
        time.sleep(1)
