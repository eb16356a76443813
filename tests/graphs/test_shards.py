"""Sets larger than memory."""

import json

import pytest
import torch

from outland.datasets import TableSettings, find_dataset
from outland.graphs import Cache, PackedGraphs
from outland.graphs.shards import Shards
from outland.tables import rows as table_rows
from tests.conftest import SAMPLES, chemical_graphs


@pytest.mark.parametrize("max_bytes", [0, 400, 1 << 20])
def test_shards_are_the_set(max_bytes, tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path))
    pieces = [PackedGraphs.from_data_list(chemical_graphs(seed)) for seed in range(5)]
    long = PackedGraphs.from_data_list(chemical_graphs(9)[:1])  # whose edges need a wider type
    long = PackedGraphs.from_tensors({**long.tensors(), "edge_index": long.edge_index.int() + 0})
    shards = Shards(max_bytes)
    for piece in [*pieces, long]:
        shards.add(piece)
    joined, whole = shards.concatenate().tensors(), PackedGraphs.concatenate([*pieces, long]).tensors()
    assert joined.keys() == whole.keys()
    for name, tensor in whole.items():
        assert joined[name].dtype == tensor.dtype
        assert torch.equal(joined[name].nan_to_num(9), tensor.nan_to_num(9)), name
    assert list(tmp_path.iterdir()) == []  # nothing is left on disk


def test_shards_of_a_killed_process_are_swept_and_those_of_others_left(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path))
    (tmp_path / ".shards-old").mkdir()
    (tmp_path / ".shards-old" / "0.safetensors").touch()
    first, second = Shards(0), Shards(0)
    for shards in (first, second):
        shards.add(PackedGraphs.from_data_list(chemical_graphs()))
    assert not (tmp_path / ".shards-old").exists()
    assert len(list(tmp_path.iterdir())) == 2
    assert len(first.concatenate()) == len(second.concatenate()) == 6


def test_a_table_read_in_shards_is_the_table(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path / "shards"))
    table = TableSettings(str(SAMPLES / "bbbp.csv"), target=("p_np",))
    plain = find_dataset("x", table).load("scaffold", "covariate", cache=Cache(tmp_path / "plain"))
    monkeypatch.setattr(table_rows, "Shards", lambda: Shards(1000))
    sharded = find_dataset("x", table).load("scaffold", "covariate", cache=Cache(tmp_path / "sharded"))
    (first,), (second,) = ((tmp_path / kind).glob("table-*/state.json") for kind in ("plain", "sharded"))
    assert json.loads(first.read_text())["sha256"] == json.loads(second.read_text())["sha256"]
    assert all(torch.equal(plain[part], sharded[part]) for part in plain.parts)
