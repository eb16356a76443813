"""Jobs on a Ray cluster: tasks that say what they need, tried again when a machine is lost."""

import math
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
from outland.studies.engines.archives import pack, unpack
from outland.studies.jobs import Job, JobOptions, split_jobs
from outland.studies.progress import StudyProgress
from outland.studies.run_store import RunStore

MAX_RETRIES = 5  # of a task whose machine or process is lost
_LOCK_TIMEOUT = 60.0  # seconds to wait for a process that holds a run, and may be about to end


@dataclass(frozen=True)
class RayEngine:
    """A cluster.

    Args:
        address: of its head, as `ray start` prints it; None takes `RAY_ADDRESS`, or makes a cluster of this machine.
        cpus, gpus: what each task needs. With a GPU a task is a whole cell, whose runs train side by side, or a part of
            one where there are more GPUs than cells; without, a single run. None asks for a GPU where there are any.
        send_back: workers write to folders of their own and send their files back here, for machines that share no
            folder. Otherwise they write to the folder of studies, which all of them must see by the same name; what a
            lost machine had done up to its last checkpoint is then not done again.
    """

    address: str | None = None
    cpus: float = 1
    gpus: float | None = None
    send_back: bool = False

    def execute(self, jobs: Sequence[Job], options: JobOptions, progress: StudyProgress) -> None:
        """Execute all jobs."""
        if not jobs:
            return
        options = replace(options, out=options.out.resolve())
        with _connected(self.address) as ray:
            machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            gpus = self._gpus_per_task(machines, options.device)
            options = replace(options, device="cuda" if gpus else "cpu")
            single = jobs if gpus else [piece for job in jobs for piece in job.split()]
            tasks = split_jobs(single, self._parallel_tasks(machines, gpus))
            remote = ray.remote(num_cpus=self.cpus, num_gpus=gpus, max_retries=MAX_RETRIES)(_execute)
            with progress.polling(tasks, options.out):
                pending = {
                    remote.remote(
                        job, options, self.cpus, _pack_runs(job, options.out) if self.send_back else None
                    ): job
                    for job in tasks
                }
                while pending:
                    (ready, *_), _ = ray.wait(list(pending))
                    for error in _collect(ray, ready, pending.pop(ready), options):
                        progress.print_error(error)

    def _gpus_per_task(self, machines: list[dict[str, float]], device: str) -> float:
        """GPUs a task; an error if no machine has what a task needs."""
        gpus = self.gpus
        if gpus is None:
            gpus = float(device != "cpu" and any(machine.get("GPU", 0) >= 1 for machine in machines))
        if not any(machine.get("CPU", 0) >= self.cpus and machine.get("GPU", 0) >= gpus for machine in machines):
            raise OutlandError(
                f"no machine of the cluster has {self.cpus:g} CPUs and {gpus:g} GPUs: ask for less by --cpus and --gpus"
            )
        return gpus

    def _parallel_tasks(self, machines: list[dict[str, float]], gpus: float) -> int:
        """How many tasks the cluster can execute at a time."""
        by_gpu = (machine.get("GPU", 0) / gpus if gpus else math.inf for machine in machines)
        by_cpu = (machine.get("CPU", 0) / self.cpus if self.cpus else math.inf for machine in machines)
        tasks = [min(*pair) for pair in zip(by_gpu, by_cpu, strict=True)]
        return int(sum(count for count in tasks if count < math.inf))


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    try:
        import ray
    except ImportError:
        raise OutlandError("--engine ray needs the package ray: pip install 'outland[ray]'") from None
    try:
        _check_reachable(address)
        ray.init(address=address, logging_level="error", log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as problem:
        raise OutlandError(f"cannot reach a Ray cluster at {address}: {problem}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Fail at once where no port is open: Ray itself would go on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _pack_runs(job: Job, out: Path) -> bytes:
    """An archive of what is there of a job's runs."""
    return pack(RunStore(job.study, out).folder, [spec.slug for spec in job.specs])


def _collect(ray: Any, task: Any, job: Job, options: JobOptions) -> list[str]:
    """Wait for a task and unpack the files that it sent back; returns the errors."""
    store = RunStore(job.study, options.out)
    try:
        errors, archive = ray.get(task)
    except ray.exceptions.RayTaskError as problem:  # raised by the task itself, wherever it was
        cause = problem.cause if isinstance(problem.cause, Exception) else OutlandError(str(problem))
        if isinstance(cause, CannotWrite):
            raise cause from None
        return _fail_all(job, store, cause)
    except ray.exceptions.RayError as problem:
        first = str(problem).strip().splitlines()[0]
        lost = f"the task was lost {MAX_RETRIES + 1} times, or could not be begun: {first}"
        return _fail_all(job, store, OutlandError(lost))
    if archive is not None:
        unpack(archive, store.folder)
        for spec in job.specs:
            folder = store.run_folder(spec)
            if folder.record_path.exists() and folder.model_path.is_dir():
                folder.tidy()  # of what was sent to the worker
    return list(errors)


def _fail_all(job: Job, store: RunStore, problem: Exception) -> list[str]:
    errors = [store.save_failure(spec, problem) for spec in job.specs]
    return [f"{job.cell.name}: {error}" for error in errors if error is not None]


def _execute(job: Job, options: JobOptions, cpus: float, archive: bytes | None) -> tuple[list[str], bytes | None]:
    """Execute a job in a worker, perhaps on another machine; returns its errors, and its files if it was sent some."""
    torch.set_num_threads(max(1, int(cpus)))
    if archive is None:
        return _execute_when_released(job, options), None
    with tempfile.TemporaryDirectory(prefix="outland-", ignore_cleanup_errors=True) as folder:
        out = Path(folder)
        unpack(archive, RunStore(job.study, out).folder)
        return job.execute(replace(options, out=out)), _pack_runs(job, out)


def _execute_when_released(job: Job, options: JobOptions) -> list[str]:
    """Execute a job whose runs may still be held by a process of a machine that is about to be gone."""
    store, until, errors = RunStore(job.study, options.out), time.monotonic() + _LOCK_TIMEOUT, list[str]()
    while True:
        errors += job.execute(options)
        left = tuple(spec for spec in job.specs if store.state(job.cell, spec) not in ("done", "failed"))
        if not left or time.monotonic() > until:
            return errors
        job = replace(job, specs=left)
        time.sleep(1)
