"""Engines that execute the jobs of a study: this machine, or a cluster. Specs and records are the same."""

from collections.abc import Sequence
from typing import Protocol

from outland.studies.jobs import Job, JobOptions
from outland.studies.progress import StudyProgress


class Engine(Protocol):
    """Executes jobs, whose results are in the folders of their runs."""

    def execute(self, jobs: Sequence[Job], options: JobOptions, progress: StudyProgress) -> None:
        """Execute all jobs, in whatever order; a run that fails does not stop the others."""
