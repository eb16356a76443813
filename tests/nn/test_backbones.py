import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import GraphBatch, PackedGraphs
from outland.nn import CONVS, BackboneSettings, Encoder, GraphNet, Mask
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole

SETTINGS = BackboneSettings(width=8, heads=2, layers=3, dropout=0.0)
OPTIONS = {
    "plain": {},
    "residual": {"residual": True},
    "sum": {"jumping": "sum"},
    "max": {"jumping": "max"},
    "concat": {"jumping": "concat"},
    "virtual": {"virtual_node": True},
    "mlp": {"head": "mlp", "pool": "sum"},
    "no norm": {"batch_norm": False, "virtual_node": True},
}


def network(kind, schema, seed=0, **options) -> GraphNet:
    torch.manual_seed(seed)
    net = GraphNet(dataclasses.replace(SETTINGS, kind=kind, **options), schema).double()
    for module in net.modules():  # running statistics away from their trivial start
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net


def doubled(batch):
    return batch.replace(x=batch.x.double()) if batch.x.is_floating_point() else batch


def without_edges(graphs):
    bare = [graph.clone() for graph in graphs]
    for graph in bare:
        graph.edge_index = graph.edge_index[:, :0]
        if graph.edge_attr is not None:
            graph.edge_attr = graph.edge_attr[:0]
    return bare


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
@pytest.mark.parametrize("kind", CONVS)
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


@pytest.mark.parametrize("kind", CONVS)
def test_weight_one_changes_nothing_and_weights_have_gradients(kind, any_set):
    schema, graphs = any_set
    net, batch = network(kind, schema).eval(), doubled(whole(graphs))
    node = torch.ones(batch.num_nodes, dtype=torch.double, requires_grad=True)
    edge = torch.ones(batch.num_edges, dtype=torch.double, requires_grad=True)
    weighted = net.encoder(batch, node, edge)
    assert torch.allclose(weighted, net.encoder(batch), atol=1e-12)
    weighted.square().sum().backward()
    assert (node.grad != 0).all()
    assert (edge.grad != 0).float().mean() > 0.9


@pytest.mark.parametrize("kind", CONVS)
def test_node_weight_multiplies_the_input(kind):
    net = network(kind, REAL).eval()
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    weight = torch.rand(batch.num_nodes, dtype=torch.double)
    expected = net.encoder(batch, states=net.encoder.embed(batch) * weight[:, None])
    assert torch.allclose(net.encoder(batch, weight), expected, atol=1e-12)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", CONVS)
def test_padding_changes_neither_logits_nor_gradients_nor_statistics(kind, option, any_set):
    schema, graphs = any_set
    results = {}
    for layout in ("exact", "padded"):
        net = network(kind, schema, **OPTIONS[option]).train()
        batch = doubled(whole(graphs, layout))
        torch.manual_seed(1)
        node, edge = torch.rand(500, dtype=torch.double), torch.rand(500, dtype=torch.double)
        from outland.nn import Mask

        logits = net(batch, Mask(node[: batch.num_nodes], edge[: batch.num_edges]))[: len(graphs)]
        loss = (logits * torch.linspace(-1, 1, logits.numel(), dtype=torch.double).reshape_as(logits)).sum()
        gradients = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
        results[layout] = [logits, *[g for g in gradients if g is not None], *net.buffers()]
    for exact, padded in zip(results["exact"], results["padded"], strict=True):
        assert torch.allclose(exact.double(), padded.double(), atol=1e-9)


@pytest.mark.parametrize("kind", CONVS)
def test_a_graph_without_edges_changes_no_other_logits(kind, any_set):
    schema, graphs = any_set
    net = network(kind, schema, virtual_node=True).eval()
    full = net(doubled(whole(graphs)))
    rest = net(doubled(whole(graphs.select(torch.tensor([0, 3, 4, 5])))))
    assert torch.allclose(full[[0, 3, 4, 5]], rest, atol=1e-12)
    assert full.isfinite().all()


@pytest.mark.parametrize("kind", CONVS)
def test_renaming_nodes_changes_nothing(kind):
    net = network(kind, REAL).eval()
    graph = odd_graphs()[4]
    order = torch.randperm(6)
    renamed = graph.clone()
    renamed.x = graph.x[order]
    renamed.edge_index = order.argsort()[graph.edge_index]
    both = net(doubled(whole(PackedGraphs.from_data_list([graph, renamed]))))
    assert torch.allclose(both[0], both[1], atol=1e-12)


@pytest.mark.parametrize("kind", CONVS)
def test_one_graph_of_one_node_trains(kind, any_set):
    schema, graphs = any_set
    net = network(kind, schema, head="mlp", virtual_node=True).train()
    logits = net(doubled(whole(graphs.select(torch.tensor([1])))))
    assert logits.shape == (1, schema.task.outputs)
    assert logits.isfinite().all()
    logits.sum().backward()


def test_virtual_node_hears_only_what_the_mask_lets_through():
    """With node 0 masked and no edges, nothing of its features may reach the others."""
    net = network("gin", REAL, virtual_node=True).eval()
    graphs = PackedGraphs.from_data_list(without_edges(odd_graphs()[4:5]))
    batch = doubled(whole(graphs))
    weight = torch.ones(batch.num_nodes, dtype=torch.double)
    weight[0] = 0
    before = net.encoder(batch, weight)
    changed = batch.replace(x=batch.x.clone().index_fill_(0, torch.tensor([0]), 9.0))
    assert torch.allclose(before, net.encoder(changed, weight), atol=1e-12)
    assert not torch.allclose(net.encoder(batch)[1:], net.encoder(changed)[1:], atol=1e-6)


def test_gin_layer_by_hand():
    encoder = Encoder(BackboneSettings(width=4, layers=1, dropout=0.0), REAL.node).double().eval()
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[4:5])))
    weight = torch.rand(batch.num_edges, dtype=torch.double)
    conv, norm = encoder.convs[0], encoder.norms[0]
    adjacency = torch.zeros(6, 6, dtype=torch.double)
    adjacency[batch.edge_index[0], batch.edge_index[1]] = weight
    total = 1.0 * batch.x + adjacency.T @ batch.x.relu()
    expected = norm(conv.contract(conv.norm(conv.expand(total)).relu()))
    assert torch.allclose(encoder(batch, edge_weight=weight), expected, atol=1e-12)


def test_gcn_layer_by_hand():
    encoder = Encoder(BackboneSettings(kind="gcn", width=4, layers=1, dropout=0.0), REAL.node).double().eval()
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[4:5])))
    weight = torch.rand(batch.num_edges, dtype=torch.double)
    adjacency = torch.eye(6, dtype=torch.double)
    adjacency[batch.edge_index[0], batch.edge_index[1]] = weight
    scale = adjacency.sum(0).rsqrt()
    expected = encoder.norms[0](encoder.convs[0].linear((scale[:, None] * adjacency * scale).T @ batch.x))
    assert torch.allclose(encoder(batch, edge_weight=weight), expected, atol=1e-12)


def test_gat_layer_equals_pyg_without_weights():
    from torch_geometric.nn import GATConv

    encoder = Encoder(BackboneSettings(kind="gat", width=8, heads=2, layers=1, dropout=0.0), REAL.node).double().eval()
    ours = encoder.convs[0]
    theirs = GATConv(3, 4, heads=2).double()
    theirs.lin.weight.data = ours.linear.weight.data
    theirs.att_src.data, theirs.att_dst.data = ours.source.data[None], ours.target.data[None]
    batch = doubled(whole(PackedGraphs.from_data_list([odd_graphs()[i] for i in (0, 1, 2, 4, 5)])))
    expected = encoder.norms[0](theirs(batch.x, batch.edge_index))
    assert torch.allclose(encoder(batch), expected, atol=1e-12)


def test_gat_survives_an_absent_edge_with_a_huge_score():
    encoder = Encoder(BackboneSettings(kind="gat", width=4, heads=1, layers=1, dropout=0.0), REAL.node).eval()
    with torch.no_grad():
        encoder.convs[0].source.fill_(1000)
        encoder.convs[0].linear.weight.abs_()
    batch = whole(PackedGraphs.from_data_list(odd_graphs()[4:5]))
    batch = batch.replace(x=batch.x.abs() * torch.tensor([0.0, 1, 2, 3, 4, 5])[:, None])
    assert encoder(batch, edge_weight=torch.zeros(batch.num_edges)).isfinite().all()


def test_virtual_node_has_the_published_number_of_parameters():
    """GOOD's five-layer CMNIST network has 2,001,310; its GIN keeps ε fixed, ours learns one a layer."""
    from outland.graphs import Features, Schema, Task

    schema = Schema(Features(3), Task("multiclass", 10, "accuracy"))
    net = GraphNet(BackboneSettings(layers=5, virtual_node=True), schema)
    assert sum(parameter.numel() for parameter in net.parameters()) - 5 == 2_001_310


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "gat", "width": 10, "heads": 4}, "must be a multiple of backbone.heads"),
        ({"layers": 0}, "backbone.layers must be from 1 to 1000, not 0"),
        ({"dropout": 2.0}, "backbone.dropout must be from 0 to 0.99, not 2"),
        ({"width": 0}, "backbone.width must be at least 1"),
        ({"heads": 0}, "backbone.heads must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(OutlandError, match=words):
        Encoder(BackboneSettings(**settings), REAL.node)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("schema", "make"), [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_relu_is_left_out_only_where_nothing_is_below_0(options, schema, make, training, monkeypatch):
    net = network("gin", schema, **OPTIONS[options]).train(training)
    batch, asked = doubled(whole(PackedGraphs.from_data_list(make()))), []
    found, plain = net(batch), GraphBatch.hear

    def always(self, values, eps, weight=None, edge_state=None, nonnegative=False):
        asked.append(nonnegative)
        return plain(self, values, eps, weight, edge_state)

    monkeypatch.setattr(GraphBatch, "hear", always)
    assert torch.equal(net(batch), found)
    assert any(asked) is not ("residual" in OPTIONS[options] or "virtual_node" in OPTIONS[options])


@pytest.mark.parametrize("layout", ["exact", "padded"])
@pytest.mark.parametrize("pool", ["mean", "sum"])
@pytest.mark.parametrize(
    ("options", "early"), [("plain", True), ("virtual", True), ("residual", False), ("sum", False)]
)
@pytest.mark.parametrize("kind", CONVS)
def test_the_readout_may_come_before_the_last_map_where_nothing_moves(kind, options, early, pool, layout, monkeypatch):
    graphs = odd_graphs()
    graphs[2].x, graphs[2].edge_index = graphs[2].x[:0], graphs[2].edge_index[:, :0]  # one of them has no nodes
    batch = doubled(whole(PackedGraphs.from_data_list(graphs), layout))
    net = network(kind, REAL, pool=pool, dropout=0.3, **OPTIONS[options]).eval().requires_grad_(False)
    weight = torch.rand(batch.num_edges, dtype=torch.double, requires_grad=True)
    read, found = Encoder._read_early, []
    monkeypatch.setattr(Encoder, "_read_early", lambda *inputs: found.append(read(*inputs)) or found[-1])
    ours = net.embed(batch, Mask(None, weight))
    nodes = net.encoder(batch, None, weight)
    plain = batch.mean_nodes(nodes) if pool == "mean" else batch.sum_nodes(nodes)
    assert torch.allclose(ours, plain, atol=1e-12)
    assert ours[2].tolist() == [0.0] * 8
    slope = torch.randn(ours.shape, dtype=torch.double)
    slopes = [torch.autograd.grad(one, weight, slope)[0] for one in (ours, plain)]
    assert torch.allclose(*slopes, atol=1e-12)
    ends_linear = kind in ("gin", "gcn")
    assert [one is not None for one in found] == [early and ends_linear]
    net.requires_grad_()  # what trains is read as ever
    net.embed(batch)
    net.train().embed(batch)
    net.eval().requires_grad_(False)
    net.encoder.dropout.train()  # what is dropped is dropped before the readout
    net.embed(batch)
    assert found[1:] == [None, None, None]
