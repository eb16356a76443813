"""Who carries out the runs of a study: this machine, or a cluster. The specs and the records are the same."""

from collections.abc import Sequence
from typing import Protocol

from outland.studies.jobs import Job, Site
from outland.studies.watch import StudyProgress


class Engine(Protocol):
    """Carries out jobs; what they did is found in the folders of their runs."""

    def carry_out(self, jobs: Sequence[Job], site: Site, callback: StudyProgress) -> None:
        """Carry out all jobs, in whatever order; a run that fails does not stop the others."""


__all__ = ["Engine", "Job", "Site"]
