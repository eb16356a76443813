import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Splits
from outland.graphs.dataset import Dataset, fingerprint
from tests.conftest import REAL, odd_graphs


class Toy(Dataset):
    name = "toy"
    domains = ("size",)
    kinds = ("covariate", "none")


def test_unknown_domains_and_kinds_are_named():
    Toy().check("size", "none")
    with pytest.raises(OutlandError, match=r"unknown domain of toy 'sise'\. Did you mean 'size'"):
        Toy().check("sise", "none")
    with pytest.raises(OutlandError, match="unknown kind of shift of toy 'concept'"):
        Toy().check("size", "concept")


def test_fingerprints_tell_graphs_and_labels_apart():
    graphs = PackedGraphs.from_data_list(odd_graphs())
    relabelled = dataclasses.replace(graphs, y=graphs.y.flip(0))
    assert fingerprint(graphs) == fingerprint(PackedGraphs.from_data_list(odd_graphs(seed=1)))  # of the same shapes
    assert fingerprint(graphs)[0] != fingerprint(relabelled)[0]
    assert fingerprint(graphs)[1] != fingerprint(relabelled)[1]


def test_parts_with_a_published_fingerprint_are_verified(monkeypatch):
    graphs = PackedGraphs.from_data_list(odd_graphs())
    parts = {"train": torch.tensor([0, 1]), "val": torch.tensor([2, 3]), "test": torch.tensor([4, 5])}
    splits = Splits(graphs, parts, REAL)
    published = {"size/none/train": fingerprint(splits.part("train")), "size/none/val": ("0" * 16, "0" * 16)}
    monkeypatch.setattr(Toy, "fingerprints", published)
    assert Toy().verify(splits, "size", "none") == {"train": True, "val": False}
