import json
import shutil

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Cache
from outland.graphs.portable import export_entry, import_entry, portable_folders
from outland.storage.files import canonical_json, digest
from tests.damage import DAMAGES, damage
from tests.graphs.test_cache import KEY, toy


@pytest.fixture
def prepared(tmp_path):
    """A prepared folder, and the tensors of the entry it was made of."""
    cache = Cache(tmp_path / "here")
    cache.store(KEY, toy())
    return export_entry(cache.path(KEY), tmp_path / "out").folder


def test_an_imported_entry_is_the_exported_one(prepared, tmp_path):
    there = Cache(tmp_path / "there")
    entry, is_new = import_entry(there, prepared)
    assert is_new
    assert entry.graphs == 6
    assert entry.versions["outland"] == "0.1.0"
    assert entry.versions.keys() >= {"numpy", "rdkit", "scikit-image"}
    name = f"{there.path(KEY).name}/tensors.safetensors"
    assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert there.load(KEY).source == Cache(tmp_path / "here").load(KEY).source


def test_reverse_travels_only_where_it_does_not_follow(tmp_path):
    """Of two parallel edges, either may be the other direction of a third."""
    cache, splits = Cache(tmp_path / "here"), toy()
    cache.store(KEY, splits)
    out = export_entry(cache.path(KEY), tmp_path / "plain").folder
    assert "graphs.reverse" not in json.loads((out / "state.json").read_text())["values"]["layout"]
    splits.graphs.reverse.copy_(torch.zeros_like(splits.graphs.reverse))
    cache.store(KEY, splits)
    out = export_entry(cache.path(KEY), tmp_path / "odd").folder
    assert "graphs.reverse" in json.loads((out / "state.json").read_text())["values"]["layout"]
    import_entry(Cache(tmp_path / "there"), out)
    assert not Cache(tmp_path / "there").load(KEY).graphs.reverse.any()


def test_an_entry_that_is_there_stays(prepared, tmp_path):
    there = Cache(tmp_path / "there")
    import_entry(there, prepared)
    state = there.path(KEY) / "state.json"
    before = state.stat().st_mtime_ns
    assert not import_entry(there, prepared)[1]
    assert state.stat().st_mtime_ns == before
    state.write_text("{")  # but a damaged one is replaced
    assert import_entry(there, prepared)[1]
    assert len(there.load(KEY).graphs) == 6


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_folder_is_refused(prepared, tmp_path, name, kind):
    damage(prepared / name, kind)
    with pytest.raises(OutlandError, match=prepared.name):
        import_entry(Cache(tmp_path / "there"), prepared)
    assert not list((tmp_path / "there").glob("toy*"))


def forge(folder, change):
    """Change a folder's values and seal it again."""
    state = json.loads((folder / "state.json").read_text())
    del state["seal"]
    change(state["values"])
    (folder / "state.json").write_text(json.dumps({**state, "seal": digest(canonical_json(state))}))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda values: values["entry"]["recipe"].update(name="../../x"), "is no name of an entry"),
        (lambda values: values["entry"]["recipe"].update(name="x" * 300), "'x+' is no name of an entry"),
        (lambda values: values["entry"]["recipe"].update(name="a\x1b[2J"), "is no name of an entry"),
        (lambda values: values["entry"]["recipe"].update(name=""), "'' is no name of an entry"),
        (lambda values: values["entry"]["recipe"].update(rdkit="\x1b[2J"), "versions are not short words"),
        (lambda values: values["entry"]["source"].update(versions=5), "versions are not short words"),
        (lambda values: values["entry"]["source"].update(versions={"numpy": 2}), "versions are not short words"),
        (lambda values: values["entry"]["source"].update(versions={"a": "\x1b[2J"}), "versions are not short words"),
        (lambda values: values["entry"]["source"].update(versions={"a": "1" * 2000}), "versions are not short words"),
        (lambda values: values["layout"]["graphs.x"].update(shape=[1 << 70]), "cannot have the shape"),
        (lambda values: values.update(checksum="0"), "are not those that were prepared"),
        (lambda values: values["layout"].clear(), "cannot be read"),
        (lambda values: values.update(cache=1), "prepare it again"),
        (lambda values: values.pop("entry"), "is no folder of"),
        (lambda values: values["entry"].pop("schema"), "does not fit together"),
    ],
)
def test_a_forged_folder_is_refused(prepared, tmp_path, change, problem):
    forge(prepared, change)
    with pytest.raises(OutlandError, match=problem) as refusal:
        import_entry(Cache(tmp_path / "there"), prepared)
    assert str(refusal.value).isprintable()
    assert not list((tmp_path / "there").glob("*"))


def test_folders_are_found_by_themselves_or_in_another(prepared, tmp_path):
    shutil.copytree(prepared, prepared.with_name("zweite"))
    assert portable_folders(prepared) == [prepared]
    assert portable_folders(prepared.parent) == [prepared, prepared.with_name("zweite")]
    with pytest.raises(OutlandError, match="there is no prepared data in"):
        portable_folders(tmp_path / "nowhere")
