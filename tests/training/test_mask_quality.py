import pytest
import torch

from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings, Mask
from outland.training.callbacks import Callback
from outland.training.mask_quality import graph_scores, mask_quality

SMALL = BackboneSettings(width=8, layers=3)


def test_scores_by_hand_and_by_torchmetrics():
    from torchmetrics.functional.classification import binary_auroc

    random = torch.Generator().manual_seed(0)
    owner = torch.randint(0, 5, (200,), generator=random)
    score = (torch.rand(200, generator=random) * 8).round() / 8  # many ties
    truth = torch.rand(200, generator=random) < 0.3
    auc, _, counts = graph_scores(score, truth, owner, 5)
    assert counts.tolist() == [1] * 5
    for graph in range(5):
        mine = owner == graph
        assert auc[graph].item() == pytest.approx(binary_auroc(score[mine], truth[mine].long()).item(), abs=1e-6)
    # one graph: the true edges have the highest, the second and the lowest of five scores
    score, truth = torch.tensor([0.9, 0.8, 0.5, 0.4, 0.1]), torch.tensor([True, True, False, False, True])
    auc, precision, _ = graph_scores(score, truth, torch.zeros(5, dtype=torch.long), 1)
    assert auc.item() == pytest.approx(4 / 6)
    assert precision.item() == pytest.approx(2 / 3)


class MaskStarts(Callback):
    """Keeps the numbers of graphs that `on_masks_start` was called with."""

    def __init__(self):
        self.graphs = []

    def on_masks_start(self, graphs):
        self.graphs.append(graphs)


def test_long_scoring_of_masks_is_announced(motif, monkeypatch):
    small = motif.limit(50)
    for name, graphs in (("evidence", [3 * 4]), ("aia", [])):
        method = build_method(name, motif.schema, SMALL, method_settings(name, {}))
        monkeypatch.setattr(type(method), "mask_graphs", 3 if graphs else None)
        starts = MaskStarts()
        assert set(mask_quality(method, small, 32, starts)) == {"id_val", "id_test", "val", "test"}
        assert starts.graphs == graphs


def test_perfect_uniform_and_inverted_masks(motif, monkeypatch):
    small = motif.limit(50)
    method = build_method("aia", motif.schema, SMALL, method_settings("aia", {}))

    def masks(kind):
        def of(batch):
            true = motif.graphs.select(batch.index).edge_truth.float()
            edge = {"perfect": true, "uniform": torch.full_like(true, 0.5), "inverted": 1 - true}[kind]
            return {"stable": Mask(torch.ones(batch.num_nodes), edge)}

        return of

    for kind, auc in (("perfect", 1.0), ("uniform", 0.5), ("inverted", 0.0)):
        monkeypatch.setattr(method, "masks", masks(kind))
        quality = mask_quality(method, small, 16)
        assert set(quality) == {"id_val", "id_test", "val", "test"}
        if kind == "uniform":
            shares = [float(graph.edge_truth.float().mean()) for graph in small.part("test").to_data_list()]
            assert quality["test"]["precision_at_k"] == pytest.approx(sum(shares) / len(shares), abs=1e-6)
        assert quality["test"]["rocauc"] == pytest.approx(auc, abs=1e-9)
    monkeypatch.setattr(method, "masks", masks("perfect"))
    assert mask_quality(method, small, 16)["test"]["precision_at_k"] == pytest.approx(1)


def test_of_a_method_whose_masks_take_long_some_graphs_are_scored(motif, monkeypatch):
    small, asked = motif.limit(50), []
    method = build_method("evidence", motif.schema, SMALL, method_settings("evidence", {}))

    def masks(batch):
        asked.extend(batch.index.tolist())
        return {"stable": Mask(torch.ones(batch.num_nodes), torch.rand(batch.num_edges))}

    monkeypatch.setattr(method, "masks", masks)
    assert type(method).mask_graphs == 64
    monkeypatch.setattr(type(method), "mask_graphs", 5)
    quality = mask_quality(method, small, 3)
    assert len(quality) == 4
    assert len(asked) == 4 * 5
    assert [index for index in asked if index in small["test"].tolist()] == small["test"][[0, 12, 24, 37, 49]].tolist()


def test_methods_without_masks_and_graphs_without_truth_have_none(motif, any_splits):
    erm = build_method("erm", motif.schema, SMALL, method_settings("erm", {}))
    assert mask_quality(erm, motif.limit(5), 4) == {}
    aia = build_method("aia", any_splits.schema, SMALL, method_settings("aia", {}))
    assert mask_quality(aia, any_splits, 4) == {}
