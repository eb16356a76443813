import json

import pytest
import torch

from outland.storage.files import canonical_json, digest
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot

SNAPSHOT = Snapshot(
    {"model.weight": torch.ones(2, 3), "model.bias": torch.zeros(3), "step": torch.tensor(4)}, {"a": [1]}
)


def test_a_snapshot_comes_back_by_groups(tmp_path):
    write_snapshot(tmp_path / "s", SNAPSHOT, {"card.md": "a model"})
    snapshot = read_snapshot(tmp_path / "s")
    assert snapshot.values == {"a": [1]}
    assert snapshot.group("model").keys() == {"weight", "bias"}
    assert snapshot.tensors.keys() == SNAPSHOT.tensors.keys()
    assert all(tensor.equal(SNAPSHOT.tensors[name]) for name, tensor in snapshot.tensors.items())
    assert (tmp_path / "s" / "card.md").read_text() == "a model"


@pytest.mark.parametrize("name", ["card.md", "tensors.safetensors", "state.json"])
def test_a_changed_or_missing_file_is_named(tmp_path, name):
    write_snapshot(tmp_path / "s", SNAPSHOT, {"card.md": "a model"})
    path = tmp_path / "s" / name
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    with pytest.raises(DamagedSnapshot, match=r"has changed since it was written|cannot be read"):
        read_snapshot(tmp_path / "s")
    path.unlink()
    with pytest.raises(DamagedSnapshot, match=f"is not whole: {name} is missing"):
        read_snapshot(tmp_path / "s")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"format": 2}, "by a newer version"), ({"texts": {"../secret": "0"}}, r"\.\./secret is not what it was")],
)
def test_a_seal_does_not_make_a_snapshot_readable(tmp_path, change, message):
    write_snapshot(tmp_path / "s", SNAPSHOT)
    state = {**json.loads((tmp_path / "s" / "state.json").read_text()), **change}
    state.pop("seal")
    (tmp_path / "s" / "state.json").write_text(json.dumps({**state, "seal": digest(canonical_json(state))}))
    with pytest.raises(DamagedSnapshot, match=message):
        read_snapshot(tmp_path / "s")
