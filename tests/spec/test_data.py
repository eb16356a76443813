"""The data of a run."""

import pytest

from outland.datasets import TableSettings
from outland.errors import OutlandError
from outland.spec import RunSpec, data_key, load_rows, load_splits
from tests.conftest import SAMPLES


def test_a_limit_takes_so_many_graphs_a_part(motif, cache):
    whole = load_splits(RunSpec.make("motif", "erm", domain="base"), cache=cache)
    assert whole.checksum() == motif.checksum()
    limited = load_splits(RunSpec.from_words("motif", "erm", ["data.limit=50"], domain="base"), cache=cache)
    assert {name: len(index) for name, index in limited.parts.items()} == dict.fromkeys(motif.parts, 50)
    again = load_splits(RunSpec.from_words("motif", "aia", ["data.limit=50"], domain="base"), cache=cache)
    assert again.checksum() == limited.checksum()


def test_all_rows_of_a_table_are_there_to_learn_from(cache):
    table = TableSettings(str(SAMPLES / "bbbp.csv"), target=("p_np",))
    rows = load_rows(RunSpec.make("bbbp", "erm", table=table, domain="scaffold"), cache)
    assert {name: len(index) for name, index in rows.parts.items()} == {"train": 298}
    assert {"scaffold", "molecule", "fingerprint", "descriptors"} <= set(rows.graphs.extra)
    few = load_rows(RunSpec.from_words("bbbp", "erm", ["data.limit=20"], table=table, domain="size"), cache)
    assert len(few["train"]) == 20
    with pytest.raises(OutlandError, match="motif is not a table"):
        load_rows(RunSpec.make("motif", "erm", domain="base"))


def test_splits_are_shared_by_runs_that_read_the_same(cache, data):
    def spec(*words):
        return RunSpec.from_words("molbbbp", "erm", words, domain="scaffold")

    same = spec(), spec("backbone.width=8"), spec("method.lr=0.1")
    assert len({data_key(each) for each in same}) == 1
    other = spec("data.limit=50"), spec("backbone.descriptors=true"), spec("data.seed=1")
    assert len({data_key(each) for each in (*same, *other)}) == 4
    splits = load_splits(spec("backbone.descriptors=true", "data.limit=50"), cache=cache, data=data)
    assert splits.part("train").extra["descriptors"].shape == (50, 69)
