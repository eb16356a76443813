"""PyG's GNNExplainer on methods."""

import dataclasses

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import GNNExplainer

from outland.errors import OutlandError
from outland.graphs import Features, PackedGraphs, Schema, Task
from outland.methods import build_method, method_settings
from outland.models.gnn_explainer import gnn_explainer
from outland.nn import BackboneSettings, Encoder
from tests.conftest import CHEMICAL, REAL, chemical_graphs, undirected

MARKED = Schema(Features(1), Task("binary", 1, "rocauc"), Features(1))


def rings(*sizes):
    graphs = []
    for size in sizes:
        pairs = [(node, (node + 1) % size) for node in range(size)]
        decides = torch.tensor([[float(n in (1, 3))] for n in range(size)]).repeat(2, 1)
        x = torch.randn(size, 1, generator=torch.Generator().manual_seed(size))
        graphs.append(Data(x=x, edge_index=undirected(*pairs), edge_attr=decides, y=torch.tensor([1])))
    return PackedGraphs.from_data_list(graphs)


class CountsMarked(Encoder):
    """Node states are the sums of the marks on incoming edges."""

    def __init__(self):
        super().__init__(BackboneSettings(), Features(1), project=False)

    def forward(self, batch, node_weight=None, edge_weight=None, states=None, edge_states=None, pool=None):
        return batch.aggregate_to_targets(
            batch.edge_attr * edge_weight[:, None] if edge_weight is not None else batch.edge_attr
        )


class ReadsMarked(nn.Module):
    """Class 1 where there are more than two marked directed edges."""

    schema = MARKED

    def __init__(self):
        super().__init__()
        self.encoder, self.scale = CountsMarked(), nn.Parameter(torch.tensor(4.0))

    def forward(self, batch):
        return self.scale * (batch.sum_nodes(self.encoder(batch)) - 2)


def test_edges_that_decide_weigh_most():
    method, graphs = ReadsMarked().train(), rings(8, 12, 9)
    weight = gnn_explainer(method, graphs, epochs=60)
    marked = graphs.edge_attr[:, 0] == 1
    assert weight[marked].min() > 0.5
    assert weight[~marked].max() == 0  # no gradient has reached them
    assert torch.equal(gnn_explainer(method, graphs, epochs=60), weight)
    assert not torch.equal(gnn_explainer(method, graphs, epochs=60, seed=1), weight)
    assert method.training
    assert method.scale.requires_grad
    assert method.scale.grad is None


@pytest.mark.parametrize(("sizes", "entropy"), [((8, 8, 8), 1.0), ((6, 8, 11), 0.0)])
def test_a_batch_is_each_graph_alone(monkeypatch, sizes, entropy):
    """Exactly where graphs have equally many edges, and where they have not, but for the entropy's weight."""
    monkeypatch.setitem(GNNExplainer.default_coeffs, "edge_ent", entropy)
    torch.manual_seed(0)
    method = build_method("erm", MARKED, BackboneSettings(width=8, layers=2), method_settings("erm", {})).double()
    method.classifier.head.linear.weight.data *= 50  # so that its loss counts beside the size of the mask
    graphs = rings(*sizes)
    graphs = dataclasses.replace(graphs, x=graphs.x.double(), edge_attr=graphs.edge_attr.double())
    monkeypatch.setattr(torch, "randn", torch.zeros)  # of the initial masks
    together = gnn_explainer(method, graphs, epochs=40)
    alone = torch.cat([gnn_explainer(method, graphs.select(torch.tensor([n])), epochs=40) for n in range(3)])
    assert together.std() > 0.001
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("name", ["erm", "cal", "aia", "gsat", "dir"])
def test_every_method_and_odd_graphs(any_set, name):
    schema, graphs = any_set
    schema = dataclasses.replace(schema, task=REAL.task)
    torch.manual_seed(0)
    method = build_method(name, schema, BackboneSettings(width=8, layers=3), method_settings(name, {}))
    weight = gnn_explainer(method, graphs, epochs=5)
    assert weight.shape == graphs.reverse.shape
    assert ((weight >= 0) & (weight <= 1)).all()
    assert weight.std() > 0.01


def test_graphs_without_edges_and_other_tasks():
    method = build_method("erm", REAL, BackboneSettings(width=8, layers=2), method_settings("erm", {}))
    lone = PackedGraphs.from_data_list([Data(x=torch.randn(2, 3), edge_index=undirected(), y=torch.tensor([0]))])
    assert gnn_explainer(method, lone).shape == (0,)
    several = build_method("erm", CHEMICAL, BackboneSettings(width=8, layers=2), method_settings("erm", {}))
    with pytest.raises(OutlandError, match="one label with classes"):
        gnn_explainer(several, PackedGraphs.from_data_list(chemical_graphs()))
