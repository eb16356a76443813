"""Jobs on this machine: on a GPU side by side in one process, on a CPU in one or several processes."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from threading import Thread

from outland.devices import find_device
from outland.errors import OutlandError
from outland.spec import data_key, load_splits
from outland.stopping import stop_on_sigterm
from outland.studies.jobs import Job, JobOptions, execute_jobs
from outland.studies.progress import StudyProgress
from outland.training.fleet import keep_splits
from outland.workers import map_ordered


@dataclass(frozen=True)
class LocalEngine:
    """This machine, with so many processes, of one thread each; one worker is this process."""

    workers: int = 1

    def execute(self, jobs: Sequence[Job], options: JobOptions, progress: StudyProgress) -> None:
        """Execute all jobs."""
        device = find_device(options.device)
        if self.workers < 1:
            raise OutlandError(f"the number of workers must be 1 or more, not {self.workers}")
        if self.workers > 1 and device.type != "cpu":
            raise OutlandError("--workers is for a CPU: on a GPU all runs train side by side in one process")
        if self.workers == 1:
            execute_jobs(jobs, options, progress.print_error, progress)
            return
        _prepare_datasets(jobs, options)
        single = [piece for job in jobs for piece in job.split()]
        # SIGTERM is passed on to the workers, which end their epochs.
        with stop_on_sigterm(), progress.polling(single, options.out):
            for errors in map_ordered(partial(_execute, options), single, min(self.workers, len(single))):
                for error in errors:
                    progress.print_error(error)


def _prepare_datasets(jobs: Sequence[Job], options: JobOptions) -> None:
    """Put each dataset into the cache once, for all processes; an error will be that of a run."""
    device = find_device(options.device)
    specs = {data_key(spec): spec for job in jobs for spec in job.specs}
    for spec in specs.values():
        with contextlib.suppress(Exception):
            load_splits(spec, device, options.cache, options.data)


def _execute(options: JobOptions, job: Job) -> list[str]:
    _exit_with_parent()
    keep_splits()
    return job.execute(options)


@cache
def _exit_with_parent() -> None:
    """End this process when its parent ends, so that nothing trains on for a study that was killed."""

    def wait(parent: BaseProcess) -> None:
        parent.join()
        os._exit(1)

    if (parent := parent_process()) is not None:
        Thread(target=wait, args=(parent,), daemon=True).start()
