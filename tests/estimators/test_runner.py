"""Jobs of a fit, within its time."""

import time
from dataclasses import dataclass, field

import pytest

from outland.errors import OutlandError
from outland.estimators.jobs import Job
from outland.estimators.runner import Runner
from outland.storage.snapshots import Snapshot


@dataclass
class Bench:
    """Does jobs of no work; those of `aia` fail."""

    done: list[str] = field(default_factory=list)
    folder: str = "here"

    def __call__(self, job: Job) -> float:
        if job.contender == "aia":
            raise OutlandError("it diverged")
        self.done.append(job.name)
        return 0.0

    def result(self, job: Job) -> Snapshot | None:
        return Snapshot({}, {"name": job.name}) if job.name in self.done else None


def runner(bench: Bench, seconds: float = 60.0) -> Runner:
    return Runner(bench, 1, time.perf_counter(), seconds)


def test_names_of_results_say_what_was_trained():
    assert Job("forest", 3).name == "forest-fold3-seed0"
    assert Job("erm", None, 20, 7, 2).name == "erm-all-20epochs-7-seed2"
    assert len({Job("erm", 0, 5).name, Job("erm", 0, 6).name, Job("erm").name, Job("erm", 0, 5, 4).name}) == 4


def test_a_failure_is_its_contenders_and_the_others_go_on():
    bench = Bench()
    with runner(bench).started() as work:
        left = work.execute([Job("erm", 0), Job("aia", 0), Job("aia", 1), Job("erm", 1)], "Testing")
        assert (left, work.failures) == ([], {"aia": "it diverged"})
        assert bench.done == ["erm-fold0-0epochs-seed0", "erm-fold1-0epochs-seed0"]
        assert [result.values["name"] for result in work.results([Job("erm", 1)])] == ["erm-fold1-0epochs-seed0"]
        with pytest.raises(OutlandError, match="the result of aia-fold0-0epochs-seed0 is gone from here"):
            work.results([Job("aia", 0)])


def test_jobs_that_time_is_up_for_are_returned():
    with runner(Bench()).started() as work:
        jobs = [Job("erm", 0), Job("erm", 1)]
        assert work.execute(jobs, "Testing", until=-1.0) == jobs
        assert work.execute(jobs, "Testing", until=60.0) == []
