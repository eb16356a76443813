"""Sets of graphs by name."""

import pytest

from outland.datasets import PartName, is_table, select_part
from outland.errors import OutlandError


@pytest.mark.parametrize(
    ("name", "expected"),
    [("t.csv", True), ("a/b.parquet", True), ("t.csv.gz", True), ("motif/base:test", False), ("test", False)],
)
def test_a_table_is_known_by_its_suffix(name, expected):
    assert is_table(name) is expected


def test_what_is_left_out_is_the_datasets_first():
    assert PartName.parse("motif:train") == PartName("motif", "base", "covariate", "train")
    assert PartName.parse("motif/size:test") == PartName("motif", "size", "covariate", "test")
    name = PartName.parse("motif/size/concept:val")
    assert (name.splits, name.part) == ("motif/size/concept", "val")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("motif", "'motif' does not name a set of graphs: write it as DATASET/DOMAIN:PART"),
        ("motif:", "does not name a set of graphs"),
        ("a/b/c/d:test", "does not name a set of graphs"),
        ("motiv:test", "Did you mean 'motif'"),
        ("motif/bass:test", "unknown domain of motif 'bass'"),
        ("motif/base/covariat:test", "Did you mean 'covariate'"),
    ],
)
def test_mistakes_are_sentences(name, sentence):
    with pytest.raises(OutlandError, match=sentence.replace("?", r"\?")):
        PartName.parse(name)


def test_a_part_is_loaded_and_selected(motif, cache):
    splits = PartName.parse("motif/base:test").load(cache=cache)
    assert splits.checksum() == motif.checksum()
    assert len(select_part(splits, "test", "motif")) == len(motif["test"]) == 3000
    with pytest.raises(OutlandError, match=r"unknown part of motif 'tests'\. Did you mean 'test'"):
        select_part(splits, "tests", "motif")
