"""kill -9 at random moments: nothing lost, nothing doubled, no corrupt file, the same numbers."""

import json
import shutil

import pytest
import torch

from outland.models import load_model
from outland.storage.snapshots import read_snapshot
from outland.training import RunRecord
from outland.training.run_folder import RunFolder
from tests.faults import children
from tests.faults.harness import REPETITIONS, Killer, finish, scaled, some, status

pytestmark = pytest.mark.faults


def records(folder):
    """Every record by its folder, without what differs between equal runs."""
    found = {path.parent.name: dict(vars(RunRecord.read(path))) for path in folder.glob("**/record.json")}
    return {name: {key: value for key, value in plain.items() if key != "timing"} for name, plain in found.items()}


def litter(folder):
    """What half-written files would leave."""
    return [path for path in folder.rglob(".*") if path.name != ".lock"]


@pytest.fixture(scope="module")
def table_cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table-cache")
    finish(children.build, folder)
    return folder


@pytest.mark.parametrize("method", some(["aia", "erm", "vrex", "disc"]))
def test_training(method, table_cache, tmp_path, tally):
    length = finish(children.train, tmp_path / "whole", table_cache, method)
    killer, place = Killer(seed=len(method)), tmp_path / "killed"
    seeds = 0
    while killer.kills < scaled(12):
        while killer.kills < scaled(12) and killer.let(length / 2, children.train, place, table_cache, method, seeds):
            pass
        finish(children.train, place, table_cache, method, seeds)
        seeds += 1
    for seed in range(1, seeds):
        finish(children.train, tmp_path / "whole", table_cache, method, seed)
    assert records(place) == records(tmp_path / "whole")
    assert not litter(place)
    assert not list(place.glob("*/checkpoints"))
    for seed in range(seeds):
        ours, theirs = (
            load_model(RunFolder(folder, children.spec_of(method, seed)).path).method
            for folder in (place, tmp_path / "whole")
        )
        assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True))
    tally("kills", "training", killer.kills)


def test_training_killed_at_every_step_of_writing(table_cache, tmp_path, tally):
    """Not at random: before each file is made, flushed, put in its place or removed; every eighth in the short form."""
    finish(children.short_train, tmp_path / "whole", table_cache)
    whole, stride = records(tmp_path / "whole"), 8 if REPETITIONS < 1 else 1
    kills = 0
    while status(children.killed_at, stride * kills + 1, children.short_train, tmp_path / str(kills), table_cache) != 0:
        finish(children.short_train, tmp_path / str(kills), table_cache)
        assert records(tmp_path / str(kills)) == whole
        assert not litter(tmp_path / str(kills))
        kills += 1
    assert kills > 15 // stride
    tally("kills", "training, step by step", kills)


def test_a_study(motif, cache, tmp_path, tally):
    length = finish(children.study, tmp_path / "whole", cache.folder)
    killer, place = Killer(seed=1), tmp_path / "killed"
    while killer.kills < scaled(20):
        done = {path: path.stat().st_mtime_ns for path in place.glob("runs/*/record.json")}
        if not killer.let(length / 3, children.study, place, cache.folder):
            assert records(place) == records(tmp_path / "whole")
            shutil.rmtree(place)
            continue
        assert all(path.stat().st_mtime_ns == when for path, when in done.items())  # what was done is left alone
        assert all(json.loads(path.read_text())["curves"][-1]["epoch"] == 5 for path in done)
    finish(children.study, place, cache.folder)
    assert len(records(place)) == children.RUNS
    assert records(place) == records(tmp_path / "whole")
    assert not litter(place)
    tally("kills", "studies", killer.kills)


def test_the_preparing_of_data(table_cache, tmp_path, tally):
    length = finish(children.build, tmp_path / "first")
    killer, place = Killer(seed=2), tmp_path / "cache"
    (entry,) = (path.name for path in table_cache.glob("table-*") if path.is_dir())
    while killer.kills < scaled(20):
        killer.let(length, children.build, place)
        found = [path for path in place.glob("[!.]*") if path.is_dir()]  # a scratch folder may be half-written
        assert not found or same_entry(found[0], table_cache / entry)
        shutil.rmtree(place / entry, ignore_errors=True)
    finish(children.build, place)
    assert same_entry(place / entry, table_cache / entry)
    assert not litter(place)
    tally("kills", "cache building", killer.kills)


def same_entry(one, other):
    """Whether two entries are whole and hold the same."""
    ours, theirs = read_snapshot(one), read_snapshot(other)
    same = (torch.equal(ours.tensors[name].nan_to_num(), theirs.tensors[name].nan_to_num()) for name in theirs.tensors)
    return ours.values == theirs.values and ours.tensors.keys() == theirs.tensors.keys() and all(same)


def test_a_search(motif, cache, tmp_path, tally):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
    length = finish(children.search, tmp_path / "whole", cache.folder)
    killer, place, kept = Killer(seed=3), tmp_path / "killed", {}
    while killer.kills < scaled(8):
        assert killer.let(length / 8, children.search, place, cache.folder) or killer.kills >= 4
        now = {path: path.read_bytes() for path in place.glob("*/runs/*/record.json")}
        assert all(now[path] == content for path, content in kept.items())  # a trial that is done stays done
        kept = now
    finish(children.search, place, cache.folder)
    report = json.loads((children.search_of(place).folder / "search.json").read_text())
    assert report["finished"]
    assert len(report["trials"]) == 6
    assert len({json.dumps(row["params"], sort_keys=True) for row in report["trials"]}) == 6
    tally("kills", "searches", killer.kills)
