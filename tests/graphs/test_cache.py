import multiprocessing

import pytest
import torch

from outland.datasets.motif import Motif
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs, Splits
from outland.graphs.cache import installed_versions
from outland.storage.snapshots import DamagedSnapshot
from tests.conftest import CHEMICAL, chemical_graphs
from tests.damage import DAMAGES, damage

KEY = {"name": "toy", "seed": 1}


def toy(key=KEY) -> Splits:
    index = {"train": torch.tensor([0, 1]), "val": torch.tensor([2, 3]), "test": torch.tensor([4, 5])}
    return Splits(PackedGraphs.from_data_list(chemical_graphs()), index, CHEMICAL, key)


def test_what_is_stored_comes_back(tmp_path):
    cache = Cache(tmp_path)
    assert cache.load(KEY) is None
    cache.store(KEY, toy())
    again = cache.load(KEY)
    assert again.schema == CHEMICAL
    assert list(again.parts) == ["train", "val", "test"]
    before, after = toy().graphs.tensors(), again.graphs.tensors()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name].nan_to_num(9), after[name].nan_to_num(9)) for name in before)


def test_an_entry_keeps_the_versions_that_made_it(tmp_path):
    cache = Cache(tmp_path)
    cache.store(KEY, toy())
    assert cache.load(KEY).source == {**KEY, "versions": installed_versions()}
    assert installed_versions()["outland"] == "0.1.0"
    assert list(cache.loaded) == [cache.path(KEY)]


def test_find_compares_versions_as_numbers(tmp_path):
    cache = Cache(tmp_path)
    for number in ("2.9", "2.10", "1.99"):
        cache.store(key := {**KEY, "tool": number}, toy(key))
    assert cache.find(KEY, "tool") == {**KEY, "tool": "2.10"}
    assert cache.find({**KEY, "seed": 2}, "tool") is None
    (cache.path({**KEY, "tool": "2.10"}) / "state.json").write_text("[")
    assert cache.find(KEY, "tool") == {**KEY, "tool": "2.9"}


def test_find_takes_the_tuples_of_a_recipe_for_the_lists_that_are_stored(tmp_path):
    cache, recipe = Cache(tmp_path), {**KEY, "target": ("y", "z")}
    cache.store(key := {**recipe, "tool": "2.9"}, toy(key))
    assert cache.find(recipe, "tool") == {**KEY, "target": ["y", "z"], "tool": "2.9"}
    assert cache.find({**recipe, "target": ("z", "y")}, "tool") is None


def test_path_depends_on_every_part_of_the_key(tmp_path):
    cache = Cache(tmp_path)
    assert cache.path(KEY) != cache.path({**KEY, "seed": 2})
    assert cache.path(KEY) == cache.path({"seed": 1, "name": "toy"})


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_noticed_and_mended(tmp_path, name, kind):
    cache, built = Cache(tmp_path), []
    cache.store(KEY, toy())
    damage(cache.path(KEY) / name, kind)
    with pytest.raises(DamagedSnapshot):
        cache.load(KEY)

    def build():
        built.append(1)
        return toy()

    assert len(cache.load_or_build(KEY, build).graphs) == 6
    assert built == [1]
    assert cache.load(KEY) is not None


def test_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr("outland.storage.snapshots.write_tensors", full)
    with pytest.raises(OutlandError, match="No space left"):
        cache.store(KEY, toy())
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutlandError, match="cannot write to the folder"):
        Cache(tmp_path / "file" / "deep").load_or_build(KEY, toy)


def _build_in_turn(folder, log):
    def build():
        with open(log, "a") as stream:
            stream.write("built\n")
        return toy()

    assert len(Cache(folder).load_or_build(KEY, build).graphs) == 6


def test_processes_that_want_the_same_entry_build_it_once(tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")  # a spawned process would spend seconds on imports
    workers = [context.Process(target=_build_in_turn, args=(tmp_path / "c", log)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert log.read_text() == "built\n"


def test_default_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path / "x"))
    assert Cache().folder == tmp_path / "x"


def test_motif_is_generated_only_once(cache, motif, monkeypatch):
    def never(*args):
        raise AssertionError("generated again")

    monkeypatch.setattr("outland.datasets.motif.generate", never)
    for kind in Motif.kinds:
        assert len(Motif().load("base", kind, cache=cache).graphs) == 30000
