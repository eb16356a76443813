"""Sets larger than memory."""

import json

import pytest
import torch
from safetensors.torch import load_file

from outland.datasets import TableSettings, find_dataset
from outland.graphs import Cache, PackedGraphs
from outland.graphs.shards import Shards
from outland.storage.tensors import Pieces, write_tensors
from outland.tables import rows as table_rows
from tests.conftest import SAMPLES, chemical_graphs


def test_tensors_come_back_as_they_were(tmp_path):
    kinds = (
        torch.float64,
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.int16,
        torch.uint8,
        torch.bool,
    )
    named = {str(kind): torch.arange(7).to(kind) for kind in kinds}
    named |= {"none": torch.zeros(0, 3), "number": torch.tensor(2.5), "across": torch.arange(6).reshape(2, 3).T}
    write_tensors(
        tmp_path / "t", {**named, "pieces": Pieces((2, 3), torch.int64, [torch.arange(4).byte(), torch.arange(2)])}
    )
    found = load_file(tmp_path / "t")
    assert found.pop("pieces").tolist() == [[0, 1, 2], [3, 0, 1]]
    assert found.keys() == named.keys()
    assert all(torch.equal(found[name], named[name]) and found[name].dtype == named[name].dtype for name in named)
    with pytest.raises(ValueError, match="not what its shape says"):
        write_tensors(tmp_path / "t", {"a": Pieces((3,), torch.int64, [torch.arange(2)])})


@pytest.mark.parametrize("most", [0, 400, 1 << 20])
def test_shards_are_the_set(most, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path))
    pieces = [PackedGraphs.from_data_list(chemical_graphs(seed)) for seed in range(5)]
    long = PackedGraphs.from_data_list(chemical_graphs(9)[:1])  # whose edges need a wider type
    long = PackedGraphs.from_tensors({**long.tensors(), "edge_index": long.edge_index.int() + 0})
    shards = Shards(most)
    for piece in [*pieces, long]:
        shards.add(piece)
    found, whole = shards.joined().tensors(), PackedGraphs.concatenate([*pieces, long]).tensors()
    assert found.keys() == whole.keys()
    for name, tensor in whole.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name].nan_to_num(9), tensor.nan_to_num(9)), name
    assert list(tmp_path.iterdir()) == []  # nothing is left on disk


def test_shards_of_a_killed_process_are_swept_and_those_of_others_left(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path))
    (tmp_path / ".shards-old").mkdir()
    (tmp_path / ".shards-old" / "0.safetensors").touch()
    first, second = Shards(0), Shards(0)
    for one in (first, second):
        one.add(PackedGraphs.from_data_list(chemical_graphs()))
    assert not (tmp_path / ".shards-old").exists()
    assert len(list(tmp_path.iterdir())) == 2
    assert len(first.joined()) == len(second.joined()) == 6


def test_a_table_read_in_shards_is_the_table(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path / "shards"))
    table = TableSettings(str(SAMPLES / "bbbp.csv"), target=("p_np",))
    plain = find_dataset("x", table).load("scaffold", "covariate", cache=Cache(tmp_path / "plain"))
    monkeypatch.setattr(table_rows, "Shards", lambda: Shards(1000))
    sharded = find_dataset("x", table).load("scaffold", "covariate", cache=Cache(tmp_path / "sharded"))
    (one,), (other,) = ((tmp_path / kind).glob("table-*/state.json") for kind in ("plain", "sharded"))
    assert json.loads(one.read_text())["sha256"] == json.loads(other.read_text())["sha256"]
    assert all(torch.equal(plain[part], sharded[part]) for part in plain.parts)
