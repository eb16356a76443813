import pytest
import torch

from outland.chem.counts import COUNT_NAMES
from outland.chem.descriptors import DESCRIPTOR_NAMES
from outland.chem.featurizer import VECTOR
from outland.errors import OutlandError
from tests.conftest import SAMPLES
from tests.tables.cases import ROWS, load, write


@pytest.mark.parametrize("split", ["scaffold", "size", "cluster", "random"])
def test_bbbp_sample_under_every_split(tmp_path, split):
    splits = load(SAMPLES / "bbbp.csv", tmp_path, split, target="p_np").check()
    used = sum(len(index) for index in splits.parts.values())
    assert used == splits.source["used"] == 298
    assert sorted(torch.cat(list(splits.parts.values())).tolist()) == list(range(used))
    assert splits.schema.task.kind == "binary"
    vectors = [splits.part("test").extra[name] for name in ("fingerprint", "descriptors", "counts")]
    assert [tuple(rows.shape[1:]) for rows in vectors] == [(256,), (len(DESCRIPTOR_NAMES),), (len(COUNT_NAMES),)]
    assert {name: splits.source[name] for name in VECTOR} == VECTOR  # so is the key of the cache
    if split in ("scaffold", "cluster"):
        groups = {part: set(splits.part(part).extra[split].tolist()) for part in splits.parts}
        assert not groups["train"] & groups["test"]
        assert not groups["train"] & groups["val"]
    if split == "size":
        assert splits.part("train").node_counts.min() >= splits.part("test").node_counts.max()


def test_one_scaffold_for_all_is_a_sentence(tmp_path):
    with pytest.raises(
        OutlandError, match=r"split by scaffold leaves none of 20 rows for 'train'.*try --domain random"
    ):
        load(write(tmp_path / "t.csv", ROWS), tmp_path, "scaffold")
