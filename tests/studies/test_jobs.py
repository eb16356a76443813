from dataclasses import replace

import pytest

from outland.errors import OutlandError
from outland.studies import find_study
from outland.studies.base import Measurement
from outland.studies.durations import estimate_seconds
from outland.studies.jobs import Job, shard, split_jobs
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from tests.studies.cases import ROWS, TINY, cells_of


def test_measures_are_kept_and_one_that_fails_is_listed(motif, cache, tmp_path):
    asked = []

    def measure(spec, folder, device, cache, data):
        asked.append((spec.method, folder.exists()))
        if spec.method == "dropedge":
            raise OutlandError("no edges to drop")
        return Measurement({"aug_train": 0.1, "aug_test": 0.2 + spec.seed})

    study = replace(find_study("shift"), measure=measure)
    cells = study.cells(2, TINY, ["Original/motif-base", "DropEdge/motif-base", "FLAG/motif-base"])
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache)
    assert outcome.states == {"done": 4, "failed": 2}
    assert outcome.failures[0][2] == "no edges to drop"
    assert asked[0] == ("erm", False)  # nothing was trained for it
    assert asked[-1] == ("flag", True)
    store = RunStore(study, tmp_path)
    assert store.record(cells[0].specs[0]) is None
    assert store.measurement(cells[2].specs[1]).values == {"aug_train": 0.1, "aug_test": 1.2}
    assert store.record(cells[2].specs[1]) is not None
    asked.clear()
    assert not run_study(study, cells, tmp_path, device="cpu", cache=cache).executed
    assert asked == []


@pytest.mark.parametrize("count", [1, 3, 5])
def test_shards_are_equal_parts_of_the_runs(count):
    _, cells = cells_of(6)
    parts = [shard(cells, f"{place}/{count}") for place in range(1, count + 1)]
    slugs = [[spec.slug for cell in part for spec in cell.specs] for part in parts]
    assert sorted(slug for part in slugs for slug in part) == sorted(spec.slug for cell in cells for spec in cell.specs)
    assert {len(part) for part in slugs} <= {24 // count, -(-24 // count)}
    assert shard(cells, f"1/{count}") == parts[0]
    assert shard(cells[::-1], f"1/{count}") == parts[0][::-1]  # the keys decide, and not the order


@pytest.mark.parametrize(
    ("workers", "sizes"), [(1, [6, 6, 6, 6]), (4, [6, 6, 6, 6]), (6, [2, 2, 2, 6, 6, 6]), (100, [1] * 24)]
)
def test_jobs_are_cut_for_the_workers_there_are_and_the_longest_come_first(workers, sizes):
    study, cells = cells_of(6, [*ROWS[:3], "AIA (released)/motif-base"])
    jobs = split_jobs([Job(study, cell, cell.specs) for cell in cells], workers)
    assert sorted(len(job.specs) for job in jobs) == sizes  # AIA takes thrice as long as the others
    assert sorted(spec.slug for job in jobs for spec in job.specs) == sorted(s.slug for c in cells for s in c.specs)
    lengths = [sum(map(estimate_seconds, job.specs)) for job in jobs]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("words", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_a_shard_that_is_none_gets_a_sentence(words):
    with pytest.raises(OutlandError, match="write it as I/N"):
        shard(cells_of(1)[1], words)
