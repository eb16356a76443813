import pytest

from outland.chem import prepared
from outland.chem.prepared import load_molecules
from outland.errors import OutlandError
from outland.graphs import Cache
from tests.graphs.test_cache import toy

RECIPE = {"name": "toy", "recipe": 1}


def never(key):
    raise AssertionError("built")


@pytest.fixture
def cache(tmp_path) -> Cache:
    """Entries of three versions of RDKit, and one of another recipe."""
    cache = Cache(tmp_path)
    for version in ("2024.09.10", "2024.09.9", "2023.03.1"):
        cache.store(key := {**RECIPE, "rdkit": version}, toy(key))
    cache.store(key := {"name": "toy", "recipe": 2, "rdkit": "2030.01.1"}, toy(key))
    return cache


def test_without_rdkit_the_newest_entry_is_taken(cache, monkeypatch):
    monkeypatch.setattr(prepared, "rdkit_version", lambda: None)
    assert load_molecules(cache, RECIPE, never, has_raw=True).source["rdkit"] == "2024.09.10"


def test_without_rdkit_and_entry_the_error_says_what_to_do(tmp_path, monkeypatch):
    def missing():
        raise OutlandError("molecules need RDKit")

    monkeypatch.setattr(prepared, "rdkit_version", lambda: None)
    monkeypatch.setattr(prepared, "rdkit", missing)
    with pytest.raises(OutlandError, match="molecules need RDKit"):
        load_molecules(Cache(tmp_path), RECIPE, never, has_raw=True)


def test_the_installed_rdkit_comes_first(cache, monkeypatch, capsys):
    monkeypatch.setattr(prepared, "rdkit_version", lambda: "2024.09.9")
    assert load_molecules(cache, RECIPE, never, has_raw=False).source["rdkit"] == "2024.09.9"
    monkeypatch.setattr(prepared, "rdkit_version", lambda: "2025.03.1")
    assert load_molecules(cache, RECIPE, toy, has_raw=True).source["rdkit"] == "2025.03.1"
    assert capsys.readouterr().err == ""


def test_another_rdkit_without_raw_file_takes_the_newest_entry_and_says_so(cache, monkeypatch, capsys):
    monkeypatch.setattr(prepared, "rdkit_version", lambda: "2025.03.1")
    assert load_molecules(cache, RECIPE, never, has_raw=False).source["rdkit"] == "2024.09.10"
    assert "toy is as RDKit 2024.09.10 prepared it; the installed one is 2025.03.1" in capsys.readouterr().err
