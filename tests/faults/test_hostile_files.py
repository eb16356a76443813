"""Model folders, caches, records and recipes that are not what they should be."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outland.errors import OutlandError
from outland.graphs import Cache
from outland.models import load_model
from outland.recipes import find_recipe, recipe_names
from outland.report.study_page import study_page
from outland.report.study_text import csv_text, latex, markdown
from outland.storage.snapshots import Snapshot, read_snapshot, write_snapshot
from outland.studies import find_study
from outland.studies.results import Results
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from outland.studies.search import Search
from outland.studies.tuned import with_tuned_settings
from outland.training import RunRecord, RunSpec
from tests.faults.harness import REPETITIONS, scaled
from tests.faults.hostile import Tried, altered, damaged, many, odd, resealed, sealed
from tests.graphs.test_cache import KEY, toy

pytestmark = pytest.mark.faults
WORDS = ["train.epochs=2", "data.limit=24", "backbone.width=8"]


@pytest.fixture(scope="module")
def finished(motif, cache, tmp_path_factory):
    """A study with one finished run, and what to find it by."""
    out = tmp_path_factory.mktemp("finished")
    study = find_study("covariate")
    cells = study.cells(1, WORDS, ["AIA (released)/motif-base"])
    assert run_study(study, cells, out, device="cpu", cache=cache).states == {"done": 1}
    return study, cells, out, RunStore(study, out).run_folder(cells[0].specs[0]).path


@pytest.mark.parametrize("name", ["state.json", "tensors.safetensors"])
def test_damaged_model_folders(name, finished, tmp_path, tally):
    tried, model = Tried(), tmp_path / "model"
    write_snapshot(model, read_snapshot(finished[3] / "model"))
    whole = (model / name).read_bytes()

    @many(150)
    @given(damaged(whole))
    def one(content):
        (model / name).write_bytes(content)
        assert tried(lambda: load_model(tmp_path)) is None or content == whole or name == "state.json"

    one()
    spare = 1 if REPETITIONS < 1 else 0  # the short form has so few inputs that one which is whole counts for much
    assert tried.refused + spare > 0.9 * tried.inputs
    tally("inputs", "model folders", tried.inputs)


def test_model_folders_sealed_by_an_enemy(finished, tmp_path, tally):
    saved = read_snapshot(finished[3] / "model")
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    tried = resealed(400, saved, tmp_path / "model", lambda: load_model(tmp_path))
    for method in (f"{tmp_path / 'evil.py'}:Evil", "evil.py:Evil", "../evil.py:Evil", "os:system", "outland.cli:main"):
        values = {**saved.values, "spec": {**saved.values["spec"], "method": method}}
        sealed(tmp_path / "model", values, saved.tensors)
        with pytest.raises(OutlandError):
            load_model(tmp_path)
    for change in ({"width": 10**9}, {"layers": 10**9}, {"heads": 2**40, "kind": "gat"}, {"width": 9, "layers": 9999}):
        spec = {**saved.values["spec"], "backbone": {**saved.values["spec"]["backbone"], **change}}
        sealed(tmp_path / "model", {**saved.values, "spec": spec}, saved.tensors)
        assert tried(lambda: load_model(tmp_path)) is None  # and the memory is still there
    assert not (tmp_path / "ran").exists()
    assert tried.refused > 0.3 * tried.inputs
    tally("inputs", "model folders", tried.inputs)


def test_cache_entries_sealed_by_an_enemy(tmp_path, tally):
    tried, cache = Tried(), Cache(tmp_path)
    cache.store(KEY, toy())
    entry = read_snapshot(cache.path(KEY))
    names = sorted(entry.tensors)

    @many(300)
    @given(
        altered(entry.values) | st.just(entry.values),
        st.lists(st.tuples(st.sampled_from(names), st.sampled_from(["gone", "large", "wrong", "short"])), max_size=2),
    )
    def one(values, changes):
        tensors = dict(entry.tensors)
        for name, change in changes:
            tensor = tensors.pop(name, entry.tensors[name])
            if change != "gone":
                large = tensor.clone().fill_(100) if change == "large" else tensor
                tensors[name] = {"wrong": tensor.double(), "short": tensor[:1].clone()}.get(change, large)
        try:
            sealed(cache.path(KEY), values, tensors)
        except ValueError:
            return
        found = tried(lambda: cache.load(KEY))
        if found is not None:
            tried(lambda: walk(found))

    def walk(splits):
        from outland.graphs import Batches

        splits.check()
        for index in splits.parts.values():
            for batch in Batches(splits.graphs, index, 2):
                batch.x.sum()

    one()
    assert tried.refused > scaled(50)
    tally("inputs", "caches", tried.inputs)


def render(study, cells, out):
    """Everything that a report does with records."""
    results = Results.read(study, cells, out, WORDS)
    if not results.records:
        raise OutlandError("; ".join(results.problems) or "nothing there")
    markdown(results)
    latex(results)
    csv_text(results)
    study_page(results, {})


def test_records_of_anything(finished, tmp_path, tally):
    study, cells, _, folder = finished
    tried, place = Tried(), tmp_path / "runs" / folder.name / "record.json"
    place.parent.mkdir(parents=True)
    whole = json.loads((folder / "record.json").read_text())

    @many(250)
    @given(altered(whole))
    def one(plain):
        place.write_text(json.dumps(plain))
        tried(lambda: RunRecord.read(place))
        tried(lambda: render(study, cells, tmp_path))

    one()

    @many(150)
    @given(damaged((folder / "record.json").read_bytes()))
    def other(content):
        place.write_bytes(content)
        tried(lambda: RunRecord.read(place))

    other()
    for text in ("[" * 100_000, '{"a":' * 100_000, "1" * 10_000, "null", "\xff"):
        place.write_text(text)
        with pytest.raises(OutlandError, match="is not a run record"):
            RunRecord.read(place)
        tried.inputs += 1
    tally("inputs", "records", tried.inputs)


def test_failures_and_reports_of_searches(finished, tmp_path, tally):
    study, cells, _, folder = finished
    tried, store = Tried(), RunStore(study, tmp_path)
    place = tmp_path / "runs" / folder.name / "failure.json"
    place.parent.mkdir(parents=True)
    report = {"spec": cells[0].specs[0].to_json(), "budget": 9, "finished": True, "best": {"params": {"gamma": 0.5}}}
    found = tmp_path / "searches" / "one" / "search.json"
    found.parent.mkdir(parents=True)

    @many(200)
    @given(st.binary(max_size=40) | odd.map(lambda value: json.dumps({"error": value}).encode()), altered(report))
    def one(content, plain):
        place.write_bytes(content)
        tried(lambda: store.failure(cells[0], cells[0].specs[0]))
        found.write_text(json.dumps(plain))
        tried(lambda: with_tuned_settings(cells, tmp_path / "searches"))

    one()
    found.write_text("[" * 100_000)
    with pytest.raises(OutlandError, match="not the report of a search"):
        with_tuned_settings(cells, tmp_path / "searches")
    tally("inputs", "records", tried.inputs)


def test_journals_of_anything(tmp_path, tally):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
    tried = Tried()
    hunt = Search(RunSpec.make("motif", "erm"), 2, tmp_path)
    hunt.report()
    journal = hunt.folder / "journal.log"
    whole = journal.read_bytes()

    @many(60)
    @given(damaged(whole))
    def one(content):
        journal.write_bytes(content)
        tried(hunt.report)

    one()
    tally("inputs", "records", tried.inputs)


def test_recipes_of_anything(tmp_path, tally):
    import tomllib

    import outland.recipes

    folder = Path(outland.recipes.__file__).parent
    tried, place = Tried(), tmp_path / "mine.toml"

    def use():
        recipe = find_recipe(str(place))
        list(recipe.entries())
        assert isinstance(recipe.about, str)
        recipe.expected_scores("motif", "base", "covariate")
        recipe.dataset_size("motif", "base", "covariate")
        for method in ("erm", "aia", "aia:paper"):
            RunSpec.make("motif", method)

    for name in recipe_names():

        @many(40)
        @given(damaged((folder / f"{name}.toml").read_bytes()))
        def one(content):
            place.write_bytes(content)
            tried(use)

        one()
    motif = tomllib.loads((folder / "motif.toml").read_text())

    @many(400)
    @given(altered(motif))
    def other(plain):
        place.write_text(toml(plain), encoding="utf-8", errors="surrogateescape")
        tried(use)

    other()
    for text in ("a = " + "[" * 100_000, "a = " + "9" * 10_000, "a.b." * 10_000 + "c = 1", "\x00", "a = 1e999"):
        place.write_text(text)
        with pytest.raises(OutlandError):
            use()
        tried.inputs += 1
    assert tried.refused > scaled(50)
    tally("inputs", "recipes", tried.inputs)


def toml(value, top=True) -> str:
    """A plain value in TOML, on one line but for the top."""
    if isinstance(value, dict):
        rows = [f"{json.dumps(str(key))} = {toml(one, False)}" for key, one in value.items()]
        return "\n".join(rows) if top else f"{{ {', '.join(rows)} }}"
    if isinstance(value, list):
        return f"[{', '.join(toml(one, False) for one in value)}]"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return '""' if value is None else json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


def test_snapshots_have_room_for_every_plain_value(tmp_path):
    """What can be written can be read again."""

    @many(100)
    @given(
        st.dictionaries(
            st.text(max_size=5), st.integers() | st.text(max_size=9) | st.floats(allow_nan=False), max_size=4
        )
    )
    def one(values):
        values = {name: value for name, value in values.items() if value not in (float("inf"), float("-inf"))}
        try:
            write_snapshot(tmp_path / "s", Snapshot({"a": torch.ones(2)}, values))
        except UnicodeEncodeError:
            return
        assert read_snapshot(tmp_path / "s").values == values

    one()
