"""Everything that determines a run, and its name."""

import json
import shutil
from dataclasses import replace

import pytest

from outland.datasets import TableSettings
from outland.errors import OutlandError
from outland.methods.aia import AIASettings
from outland.nn import BackboneSettings
from outland.recipes import find_recipe
from outland.spec import RunSpec, TrainSettings, load_splits, spec_key
from outland.storage.files import digest
from tests.cli.cases import guide_example

WORDS = ["data.limit=96", "backbone.width=8", "train.epochs=5", "train.batch_size=16"]


def spec(*more, method="aia", seed=1, **rest):
    return RunSpec.from_words("motif", method, [*WORDS, *more], seed=seed, **rest)


def test_spec_spells_everything_out_and_its_key_follows_every_setting():
    base = spec()
    assert base.train.burn_in == 0.7  # Motif's recommendation
    assert base.method_params.gamma == 0.2
    assert spec().key == base.key
    others = [
        spec("method.gamma=0.5"),
        spec(seed=2),
        spec(method="aia:paper"),
        spec("train.burn_in=0"),
        spec(kind="none"),
    ]
    assert len({base.key, *(other.key for other in others)}) == 6
    assert json.loads(json.dumps(base.to_json()))["backbone"]["width"] == 8


def test_how_often_checkpoints_are_written_makes_no_other_run():
    often, seldom = spec("train.checkpoint_every=1"), spec("train.checkpoint_every=7")
    assert (often.train.checkpoint_every, spec().train.checkpoint_every) == (1, None)
    assert spec().key == often.key == seldom.key == spec_key(often.to_json())
    assert spec().slug == often.slug
    assert spec("train.checkpoint_every=1", "train.epochs=6").key != often.key


@pytest.mark.parametrize("method", ["erm", "aia:paper", "aia:rdia"])
def test_spec_from_json_is_the_spec(method):
    assert RunSpec.from_json(json.loads(json.dumps(spec(method=method).to_json()))) == spec(method=method)


def test_preset_is_told_and_does_not_make_another_run():
    assert spec(method="aia:released").key == spec().key
    assert "aia-released" in spec(method="aia:released").slug


@pytest.mark.parametrize(
    "word",
    [
        "train.epochs=0",
        "train.checkpoint_every=0",
        "train.weight_decay=-1",
        "train.burn_in=3",
        "data.limit=-1",
        "data.seed=-1",
        "method.lr=-1",
        "method.gamma=inf",
        "method.drop=3",
        "method.lambda_s=1.5",
    ],
)
def test_numbers_out_of_range_are_refused(word):
    with pytest.raises(OutlandError, match=rf"{word.partition('=')[0]} must be"):
        spec(word)


def test_negative_seed_and_unknown_group():
    with pytest.raises(OutlandError, match=r"run.seed must be at least 0"):
        spec(seed=-1)
    with pytest.raises(OutlandError, match="unknown group of settings 'metod'"):
        RunSpec.make("motif", "erm", changes={"metod": {}})


def test_no_recipe_leaves_the_defaults_of_the_settings():
    bare = RunSpec.from_words("motif", "aia", [], recipe=None)
    assert (bare.train, bare.backbone, bare.method_params) == (TrainSettings(), BackboneSettings(), AIASettings())
    assert RunSpec.from_words("motif", "aia", ["train.epochs=3"], recipe=None).train == TrainSettings(epochs=3)
    assert RunSpec.make("motif", "aia", recipe=find_recipe("molbbbp")).train == RunSpec.make("molbbbp", "aia").train


def test_epochs_that_are_asked_for_switch_a_recipes_samples_off(table):
    assert RunSpec.make("t", "erm", table=table).train.total_samples == 60_000
    asked = RunSpec.make("t", "erm", table=table, changes={"train": {"epochs": 9}}).train
    assert (asked.epochs, asked.total_samples) == (9, None)
    both = RunSpec.make("t", "erm", table=table, changes={"train": {"epochs": 9, "total_samples": 5}}).train
    assert (both.epochs, both.total_samples) == (9, 5)


def test_a_readout_without_an_effect_is_refused():
    refused = r"evidence is method.readout=max, so that backbone.pool has no effect: set method.readout=backbone, too"
    with pytest.raises(OutlandError, match=refused):
        RunSpec.from_words("motif", "evidence", ["backbone.pool=sum"])
    taken = RunSpec.from_words("motif", "evidence", ["backbone.pool=sum", "method.readout=backbone"])
    assert taken.backbone.pool == "sum"
    assert RunSpec.from_words("motif", "erm", ["backbone.pool=sum"]).backbone.pool == "sum"
    assert RunSpec.from_words("motif", "cal", ["backbone.pool=sum"]).backbone.pool == "sum"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text("smiles,y\nCCO,1\nCCN,0\n")
    return TableSettings(str(tmp_path / "t.csv"), target=("y",))


def test_of_a_table_the_content_counts_and_not_the_path(table, tmp_path):
    ours = RunSpec.make("t", "erm", table=table)
    assert (ours.dataset, ours.domain, ours.kind) == ("t", "scaffold", "covariate")
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copy(tmp_path / "t.csv", tmp_path / "elsewhere" / "t.csv")
    moved = RunSpec.make("t", "erm", table=replace(table, file=str(copy)))
    assert (moved.key, moved.slug) == (ours.key, ours.slug)
    assert RunSpec.make("t", "erm", table=replace(table, strict=True)).key == ours.key
    with (tmp_path / "t.csv").open("a") as stream:
        stream.write("CCC,0\n")
    assert RunSpec.make("t", "erm", table=table).key != ours.key
    assert RunSpec.from_json(json.loads(json.dumps(ours.to_json()))) == ours


def test_of_a_method_in_a_file_the_content_counts_and_not_the_path(tmp_path):
    source = guide_example()
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(source)
    (tmp_path / "c.py").write_text(source + "\n# another\n")
    first, copy, other = (RunSpec.make("motif", f"{tmp_path / name}.py:Yours") for name in "abc")
    assert (first.key, first.slug) == (copy.key, copy.slug)
    assert first.code == copy.code == digest(source) != other.code
    assert first.key != other.key
    assert "-Yours-seed0-" in first.slug
    assert RunSpec.from_json(json.loads(json.dumps(first.to_json()))).to_json() == first.to_json()


def test_graphs_in_memory_are_known_by_their_checksum():
    first, other = (
        RunSpec.make("memory", "erm", domain="size", kind="covariate", data_checksum=checksum) for checksum in "ab"
    )
    assert first.key != other.key
    assert first.train.total_samples == 60_000  # the recipe of tables
    assert RunSpec.from_json(json.loads(json.dumps(first.to_json()))) == first


def test_one_target_has_one_key_however_it_is_written(table):
    ours, same = (RunSpec.make("t", "erm", table=replace(table, target=target)) for target in ("y", ("y",)))
    assert (ours.key, ours.table) == (same.key, same.table)


def test_a_table_that_has_changed_since_its_spec_is_refused(table, tmp_path):
    spec = RunSpec.make("t", "erm", table=table)
    with (tmp_path / "t.csv").open("a") as stream:
        stream.write("CCC,0\n")
    with pytest.raises(OutlandError, match=r"t\.csv has changed since it was first read: begin again"):
        load_splits(spec)


@pytest.mark.parametrize(
    ("dataset", "domain", "method", "key"),
    [
        ("motif", "base", "aia:paper", "ddce4a9cd2a9"),
        ("molbbbp", "scaffold", "aia:paper", "9f7c294f04b6"),
        ("molbbbp", "size", "aia:paper", "ad2dd5194b3d"),
        ("molbbbp", "scaffold", "g-mixup", "4702b7e0d909"),
        ("molbbbp", "size", "g-mixup", "8c6bb04fba20"),
    ],
)
def test_keys_of_published_runs_stay(dataset, domain, method, key):
    assert RunSpec.make(dataset, method, domain=domain, kind="covariate").key == key


def test_tables_from_before_cip_codes_keep_their_key_and_their_tags(table):
    spec = RunSpec.make("t", "erm", table=table)
    plain = spec.to_json()
    before = {**plain, "table": {name: value for name, value in plain["table"].items() if name != "chirality"}}
    old = RunSpec.from_json(before)
    assert (spec.table.chirality, old.table.chirality) == ("cip", "tags")
    assert old.key == spec_key(before) != spec.key


def test_settings_that_came_later_count_only_where_they_are_on():
    plain = spec().to_json()
    older = {name: value for name, value in plain["backbone"].items() if not name.endswith("readout")}
    assert spec_key({**plain, "backbone": older}) == spec_key(plain) == spec().key
    keys = {spec(f"backbone.{word}").key for word in ("unit_readout=true", "masked_readout=true", "pool=max")}
    assert len(keys | {spec().key}) == 4


def test_the_version_of_descriptors_counts_where_a_benchmarks_molecules_have_them(table, monkeypatch):
    changes = {"backbone": {"descriptors": True}}
    first = RunSpec.make("molbbbp", "erm", changes=changes)
    others = [
        RunSpec.make("molbbbp", "erm"),
        RunSpec.make("t", "erm", table=table, changes=changes),
        RunSpec.make("memory", "erm", domain="size", kind="covariate", data_checksum="a", changes=changes),
    ]
    keys = [spec_key(spec.to_json()) for spec in (first, *others)]
    monkeypatch.setattr("outland.spec.run.DESCRIPTORS", "rdkit2d-another")
    later = [spec_key(spec.to_json()) for spec in (first, *others)]
    assert [before == after for before, after in zip(keys, later, strict=True)] == [False, True, True, True]
