"""Runs on this machine: on a GPU side by side in one process, on a CPU in as many processes as one likes."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import parent_process
from threading import Thread

from outland.devices import find_device
from outland.errors import OutlandError
from outland.spec import load_splits
from outland.studies.engines import Job, Site
from outland.studies.watch import StudyProgress
from outland.workers import map_ordered


@dataclass(frozen=True)
class LocalEngine:
    """This machine.

    Args:
        workers: processes, of one thread each. With one, all is done in this process.
    """

    workers: int = 1

    def carry_out(self, jobs: Sequence[Job], site: Site, callback: StudyProgress) -> None:
        """Carry out all jobs."""
        device = find_device(site.device)
        if self.workers < 1:
            raise OutlandError(f"the number of workers must be 1 or more, not {self.workers}")
        if self.workers > 1 and device.type != "cpu":
            raise OutlandError("--workers is for a CPU: on a GPU the runs of a cell train side by side in one process")
        if self.workers == 1:
            for job in jobs:
                callback.cell(job.cell.name, job.specs)
                _say(job.carry_out(site, callback), callback)
            return
        _prepare(jobs, site)
        single = [one for job in jobs for one in job.single()]
        with callback.looking(single, site.out):
            for told in map_ordered(partial(_work, site), single, min(self.workers, len(single))):
                _say(told, callback)


def _say(told: list[str], callback: StudyProgress) -> None:
    for words in told:
        callback.say(words)


def _prepare(jobs: Sequence[Job], site: Site) -> None:
    """Prepare each dataset once, so that the processes find it in the cache; what goes wrong, a run will tell."""
    device = find_device(site.device)
    for spec in {
        (spec.dataset, spec.domain, spec.kind, spec.data): spec for job in jobs for spec in job.specs
    }.values():
        with contextlib.suppress(Exception):
            load_splits(spec, device, site.cache, site.data)


def _work(site: Site, job: Job) -> list[str]:
    _leave_together()
    return job.carry_out(site)


_leaving: list[Thread] = []


def _leave_together() -> None:
    """End this process when the one that started it does, so that nobody trains on for a study that was killed."""
    parent = parent_process()
    if parent is None or _leaving:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    _leaving.append(Thread(target=wait, daemon=True))
    _leaving[0].start()
