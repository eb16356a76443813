import pytest
import torch

from outland.graphs import PackedGraphs
from outland.nn import BACKBONES, CONVS, BackboneSettings, build_encoder
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole
from tests.nn.cases import doubled, network, without_edges


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("schema", "make"), [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)])
@pytest.mark.parametrize("kind", CONVS)
def test_weight_zero_is_the_graph_without_its_edges(kind, schema, make, training):
    net = network(kind, schema, virtual_node=True).train(training)
    batch = doubled(whole(PackedGraphs.from_data_list(make())))
    bare = doubled(whole(PackedGraphs.from_data_list(without_edges(make()))))
    silenced = net.encoder(batch, edge_weight=torch.zeros(batch.num_edges, dtype=torch.double))
    assert torch.allclose(silenced, net.encoder(bare), atol=1e-12)
    assert not torch.allclose(net.encoder(batch), net.encoder(bare), atol=1e-3)


@pytest.mark.parametrize(("schema", "make"), [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)])
@pytest.mark.parametrize("kind", BACKBONES)
def test_weight_zero_on_one_edge_is_the_graph_without_that_edge(kind, schema, make):
    net = network(kind, schema).eval()
    graphs = make()
    batch = doubled(whole(PackedGraphs.from_data_list(graphs[:1])))
    weight = torch.ones(batch.num_edges, dtype=torch.double)
    weight[2] = 0
    kept = [0, 1, *range(3, batch.num_edges)]
    graphs[0].edge_index = graphs[0].edge_index[:, kept]
    if graphs[0].edge_attr is not None:
        graphs[0].edge_attr = graphs[0].edge_attr[kept]
    thinner = doubled(whole(PackedGraphs.from_data_list(graphs[:1])))
    assert torch.allclose(net.encoder(batch, edge_weight=weight), net.encoder(thinner), atol=1e-12)


def test_gin_layer_by_hand():
    encoder = build_encoder(BackboneSettings(width=4, layers=1, dropout=0.0), REAL.node).double().eval()
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[4:5])))
    weight = torch.rand(batch.num_edges, dtype=torch.double)
    conv, norm = encoder.convs[0], encoder.norms[0]
    adjacency = torch.zeros(6, 6, dtype=torch.double)
    adjacency[batch.edge_index[0], batch.edge_index[1]] = weight
    total = 1.0 * batch.x + adjacency.T @ batch.x.relu()
    expected = norm(conv.contract(conv.norm(conv.expand(total)).relu()))
    assert torch.allclose(encoder(batch, edge_weight=weight), expected, atol=1e-12)


def test_gcn_layer_by_hand():
    encoder = build_encoder(BackboneSettings(kind="gcn", width=4, layers=1, dropout=0.0), REAL.node).double().eval()
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[4:5])))
    weight = torch.rand(batch.num_edges, dtype=torch.double)
    adjacency = torch.eye(6, dtype=torch.double)
    adjacency[batch.edge_index[0], batch.edge_index[1]] = weight
    scale = adjacency.sum(0).rsqrt()
    expected = encoder.norms[0](encoder.convs[0].linear((scale[:, None] * adjacency * scale).T @ batch.x))
    assert torch.allclose(encoder(batch, edge_weight=weight), expected, atol=1e-12)


def test_gat_layer_equals_pyg_without_weights():
    from torch_geometric.nn import GATConv

    encoder = (
        build_encoder(BackboneSettings(kind="gat", width=8, heads=2, layers=1, dropout=0.0), REAL.node).double().eval()
    )
    ours = encoder.convs[0]
    theirs = GATConv(3, 4, heads=2).double()
    theirs.lin.weight.data = ours.linear.weight.data
    theirs.att_src.data, theirs.att_dst.data = ours.source.data[None], ours.target.data[None]
    batch = doubled(whole(PackedGraphs.from_data_list([odd_graphs()[i] for i in (0, 1, 2, 4, 5)])))
    expected = encoder.norms[0](theirs(batch.x, batch.edge_index))
    assert torch.allclose(encoder(batch), expected, atol=1e-12)


def test_gat_survives_an_absent_edge_with_a_huge_score():
    encoder = build_encoder(BackboneSettings(kind="gat", width=4, heads=1, layers=1, dropout=0.0), REAL.node).eval()
    with torch.no_grad():
        encoder.convs[0].source.fill_(1000)
        encoder.convs[0].linear.weight.abs_()
    batch = whole(PackedGraphs.from_data_list(odd_graphs()[4:5]))
    batch = batch.replace(x=batch.x.abs() * torch.tensor([0.0, 1, 2, 3, 4, 5])[:, None])
    assert encoder(batch, edge_weight=torch.zeros(batch.num_edges)).isfinite().all()
