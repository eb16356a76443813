import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.nn import BACKBONES, CONVS, BackboneSettings, Mask, build_encoder
from outland.nn.encoder import NodeEncoder
from outland.ops import EmbeddedRows, dense_rows, gin_aggregate, use_kernels
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, whole
from tests.nn.cases import OPTIONS, doubled, network, without_edges
from tests.ops.cases import needs_triton


@pytest.mark.parametrize("kind", BACKBONES)
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


@pytest.mark.parametrize("kind", BACKBONES)
def test_node_weight_multiplies_the_input(kind):
    net = network(kind, REAL).eval()
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    weight = torch.rand(batch.num_nodes, dtype=torch.double)
    expected = net.encoder(batch, states=net.encoder.embed(batch) * weight[:, None])
    assert torch.allclose(net.encoder(batch, weight), expected, atol=1e-12)


def test_the_virtual_node_pools_only_what_the_mask_lets_through():
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


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "gat", "width": 10, "heads": 4}, "must be a multiple of backbone.heads"),
        ({"kind": "dmpnn", "virtual_node": True}, "dmpnn has no virtual node"),
        ({"kind": "dmpnn", "jumping": "sum"}, "no jumping"),
        ({"layers": 0}, "backbone.layers must be from 1 to 1000, not 0"),
        ({"dropout": 2.0}, "backbone.dropout must be from 0 to 0.99, not 2"),
        ({"width": 0}, "backbone.width must be from 1 to 8192"),
        ({"heads": 0}, "backbone.heads must be from 1 to 1024"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(OutlandError, match=words):
        build_encoder(BackboneSettings(**settings), REAL.node)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("schema", "make"), [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_relu_is_left_out_only_where_nothing_is_below_0(options, schema, make, training, monkeypatch):
    net = network("gin", schema, **OPTIONS[options]).train(training)
    batch, asked = doubled(whole(PackedGraphs.from_data_list(make()))), []
    expected = net(batch)

    def with_relu(x, eps, edges, weight=None, edge_state=None, nonnegative=False):
        asked.append(nonnegative)
        return gin_aggregate(x, eps, edges, weight, edge_state)

    monkeypatch.setattr("outland.nn.convs.gin_aggregate", with_relu)
    assert torch.equal(net(batch), expected)
    assert any(asked) is not ("residual" in OPTIONS[options] or "virtual_node" in OPTIONS[options])


@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="pretends that a CPU is a GPU")
@pytest.mark.parametrize("kind", CONVS)
def test_only_gin_looks_up_the_vectors_of_edges_and_only_where_there_are_kernels(kind):
    net = network(kind, CHEMICAL).float()
    graphs = whole(PackedGraphs.from_data_list(chemical_graphs()))
    plain = net.encoder.edge_states(graphs)
    assert all(isinstance(state, torch.Tensor) for state in plain)
    expected = net(graphs)
    with use_kernels(True):
        states = net.encoder.edge_states(graphs)
        actual = net(graphs)
    assert len(states) == len(plain) == net.encoder.settings.layers
    assert all(isinstance(state, EmbeddedRows) == (kind == "gin") for state in states)
    assert torch.allclose(dense_rows(states[0]), plain[0], atol=1e-6)
    assert torch.allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("layout", ["exact", "padded"])
@pytest.mark.parametrize("pool", ["mean", "sum"])
@pytest.mark.parametrize(
    ("options", "is_early"), [("plain", True), ("virtual", True), ("residual", False), ("sum", False)]
)
@pytest.mark.parametrize("kind", CONVS)
def test_the_readout_may_come_before_the_last_map_if_nothing_trains(kind, options, is_early, pool, layout, monkeypatch):
    graphs = odd_graphs()
    graphs[2].x, graphs[2].edge_index = graphs[2].x[:0], graphs[2].edge_index[:, :0]  # one of them has no nodes
    batch = doubled(whole(PackedGraphs.from_data_list(graphs), layout))
    net = network(kind, REAL, pool=pool, dropout=0.3, **OPTIONS[options]).eval().requires_grad_(False)
    weight = torch.rand(batch.num_edges, dtype=torch.double, requires_grad=True)
    pool_early, pooled = NodeEncoder.pool_early, []
    monkeypatch.setattr(NodeEncoder, "pool_early", lambda *inputs: pooled.append(pool_early(*inputs)) or pooled[-1])
    ours = net.embed(batch, Mask(None, weight))
    nodes = net.encoder(batch, None, weight)
    plain = batch.mean_nodes(nodes) if pool == "mean" else batch.sum_nodes(nodes)
    assert torch.allclose(ours, plain, atol=1e-12)
    assert ours[2].tolist() == [0.0] * 8
    grad = torch.randn(ours.shape, dtype=torch.double)
    grads = [torch.autograd.grad(one, weight, grad)[0] for one in (ours, plain)]
    assert torch.allclose(*grads, atol=1e-12)
    ends_linear = kind in ("gin", "gcn")
    assert [early is not None for early in pooled] == [is_early and ends_linear]
    net.requires_grad_()  # a network that trains is pooled after it
    net.embed(batch)
    net.train().embed(batch)
    net.eval().requires_grad_(False)
    net.encoder.dropout.train()  # what is dropped is dropped before the readout
    net.embed(batch)
    assert pooled[1:] == [None, None, None]
