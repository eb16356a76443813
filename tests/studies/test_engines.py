import sys

import pytest

from outland.errors import OutlandError
from outland.studies import find_study
from outland.studies.durations import estimate_seconds
from outland.studies.engines.archives import pack, unpack
from outland.studies.engines.local import LocalEngine
from outland.studies.engines.ray import RayEngine
from outland.studies.jobs import Job, shard, split_jobs
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from outland.training import RunRecord

TINY = ["train.epochs=2", "data.limit=48", "backbone.width=8"]
ROWS = ["ERM/motif-base", "IRM/motif-base", "GroupDRO/motif-base", "VREx/motif-base"]


def cells_of(seeds: int, rows=ROWS, words=TINY):
    study = find_study("covariate")
    return study, study.cells(seeds, words, rows)


def records(folder):
    """Every record by its folder, without what differs between equal runs."""
    found = {}
    for path in (folder / "runs").glob("*/record.json"):
        record = RunRecord.read(path)
        found[path.parent.name] = (record.key, record.spec, record.curves, record.selection, record.platform)
    return found


@pytest.fixture(scope="module")
def by_hand(motif, cache, tmp_path_factory):
    """Four short runs, one after another in this process."""
    folder = tmp_path_factory.mktemp("by-hand")
    study, cells = cells_of(2, ROWS[:2])
    assert run_study(study, cells, folder, device="cpu", cache=cache).states == {"done": 4}
    return records(folder)


def test_several_processes_give_the_same_records(by_hand, cache, tmp_path, capsys):
    study, cells = cells_of(2, ROWS[:2])
    damaged = cells[0].specs[1]
    (RunStore(study, tmp_path).run_folder(damaged).path / "checkpoints" / "epoch-00001").mkdir(parents=True)
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=LocalEngine(workers=2))
    assert (len(outcome.executed), outcome.states) == (4, {"done": 3, "failed": 1})
    assert "is intact" in outcome.failures[0][2]
    told = capsys.readouterr().err
    assert "ERM/motif-base: no checkpoint" in told
    assert "4 of 4 runs" in told  # seen in the folders of the runs
    wanted = {spec.slug for cell in cells for spec in cell.specs} - {damaged.slug}
    assert records(tmp_path) == {name: by_hand[name] for name in wanted}


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
    study, cells = cells_of(6, [*ROWS[:3], "AIA/motif-base"])
    jobs = split_jobs([Job(study, cell, cell.specs) for cell in cells], workers)
    assert sorted(len(job.specs) for job in jobs) == sizes  # AIA takes thrice as long as the others
    assert sorted(spec.slug for job in jobs for spec in job.specs) == sorted(s.slug for c in cells for s in c.specs)
    lengths = [sum(map(estimate_seconds, job.specs)) for job in jobs]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("words", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_a_shard_that_is_none_gets_a_sentence(words):
    with pytest.raises(OutlandError, match="write it as I/N"):
        shard(cells_of(1)[1], words)


def test_workers_need_a_sensible_number(motif, cache, tmp_path):
    study, cells = cells_of(1, ROWS[:1])
    with pytest.raises(OutlandError, match="must be 1 or more, not 0"):
        run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=LocalEngine(workers=0))


def test_archives_bring_runs_over_whole(tmp_path):
    run = tmp_path / "here" / "run"
    (run / "model").mkdir(parents=True)
    (run / "model" / "weights").write_bytes(b"\x00\x01")
    (run / "record.json").write_text("{}")
    (run / ".lock").touch()
    unpack(pack(tmp_path / "here", ["run", "not-there"]), tmp_path / "there")
    assert (tmp_path / "there" / "run" / "model" / "weights").read_bytes() == b"\x00\x01"
    assert sorted(path.name for path in (tmp_path / "there" / "run").iterdir()) == ["model", "record.json"]


def test_an_archive_cannot_write_elsewhere(tmp_path):
    import io
    import tarfile

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../elsewhere"), io.BytesIO())
    with pytest.raises(OutlandError, match="no part of a run"):
        unpack(stream.getvalue(), tmp_path / "runs")
    assert not (tmp_path / "elsewhere").exists()


def test_without_ray_its_engine_says_what_to_install(motif, cache, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    study, cells = cells_of(1, ROWS[:1])
    with pytest.raises(OutlandError, match=r"pip install 'outland\[ray\]'"):
        run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=RayEngine())


def test_a_cluster_that_does_not_answer_is_a_sentence(motif, cache, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'outland[ray]'")
    study, cells = cells_of(1, ROWS[:1])
    with pytest.raises(OutlandError, match="cannot reach a Ray cluster at 127"):
        run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=RayEngine(address="127.0.0.1:1"))
