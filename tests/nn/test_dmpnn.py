import dataclasses

import pytest
import torch

from outland.graphs import PackedGraphs
from outland.nn import BackboneSettings, build_encoder
from tests.conftest import CHEMICAL, REAL, chemical_graphs, odd_graphs, undirected, whole
from tests.nn.cases import doubled, network, without_edges

SETS = [(REAL, odd_graphs), (CHEMICAL, chemical_graphs)]


def encoder(layers, schema=REAL, **options):
    torch.manual_seed(0)
    settings = BackboneSettings(kind="dmpnn", width=4, layers=layers, dropout=0.0, batch_norm=False, **options)
    return build_encoder(settings, schema.node, schema.edge).double().eval()


def path():
    """Three nodes in a row, 0 - 1 - 2, as a batch."""
    (graph,) = odd_graphs()[:1]
    graph.x, graph.edge_index = graph.x[:3], undirected((0, 1), (1, 2))
    return doubled(whole(PackedGraphs.from_data_list([graph])))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_path_by_hand(weighted):
    """Into edge 1 -> 2 goes 0 -> 1 alone; nothing into 0 -> 1, since its source has no other edge than its reverse."""
    net, batch = encoder(2), path()
    weight = torch.rand(4, dtype=torch.double) if weighted else torch.ones(4, dtype=torch.double)
    x = net.features(batch.x)
    ends = batch.edge_index.T.tolist()
    w = {(u, v): weight[ends.index([u, v])] for u, v in ends}
    first = {(u, v): net.source(x[u]) for u, v in w}
    h = {edge: value.relu() for edge, value in first.items()}
    one, two = (
        (first[1, 2] + net.hidden(w[0, 1] * h[0, 1])).relu(),
        (first[1, 0] + net.hidden(w[2, 1] * h[2, 1])).relu(),
    )
    into = [w[1, 0] * two, w[0, 1] * h[0, 1] + w[2, 1] * h[2, 1], w[1, 2] * one]
    expected = net.node(torch.cat([x, torch.stack(into)], 1)).relu()
    assert torch.allclose(net(batch, edge_weight=weight if weighted else None), expected, atol=1e-12)


@pytest.mark.parametrize(("schema", "make"), SETS)
def test_weight_zero_is_the_graph_without_its_edges(schema, make):
    net = network("dmpnn", schema).eval()
    batch = doubled(whole(PackedGraphs.from_data_list(make())))
    bare = doubled(whole(PackedGraphs.from_data_list(without_edges(make()))))
    silenced = net.encoder(batch, edge_weight=torch.zeros(batch.num_edges, dtype=torch.double))
    assert torch.allclose(silenced, net.encoder(bare), atol=1e-12)
    assert not torch.allclose(net.encoder(batch), net.encoder(bare), atol=1e-3)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("schema", "make"), SETS)
def test_padding_changes_nothing(schema, make, training):
    graphs = PackedGraphs.from_data_list(make())
    results = []
    for layout in ("exact", "padded"):
        net, batch = network("dmpnn", schema).train(training), doubled(whole(graphs, layout))
        edge = (0.1 + 0.01 * torch.arange(batch.num_edges, dtype=torch.double)).requires_grad_()
        logits = net.head(net.encoder(batch, None, edge, pool=batch.mean_nodes), batch)[: len(graphs)]
        logits.square().sum().backward()
        grads = [p.grad for p in net.parameters() if p.grad is not None]
        results.append([logits.detach(), edge.grad[: int(graphs.edge_counts.sum())], *grads])
    exact, padded = results
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(exact, padded, strict=True))


def test_the_order_of_nodes_and_edges_changes_nothing():
    net, graphs = network("dmpnn", CHEMICAL).eval(), chemical_graphs()
    expected = net(doubled(whole(PackedGraphs.from_data_list(graphs))))
    random = torch.Generator().manual_seed(1)
    for graph in graphs:
        nodes, edges = (torch.randperm(n, generator=random) for n in (len(graph.x), graph.edge_index.shape[1]))
        graph.x = graph.x[nodes.argsort()]
        graph.edge_index, graph.edge_attr = nodes[graph.edge_index][:, edges], graph.edge_attr[edges]
    assert torch.allclose(net(doubled(whole(PackedGraphs.from_data_list(graphs)))), expected, atol=1e-12)


def test_one_layer_has_no_matrix_between_edges():
    assert encoder(1).hidden is None
    assert encoder(1)(path()).shape == (3, 4)


def test_another_encoder_may_go_on_with_the_states():
    front, batch = encoder(2, CHEMICAL), doubled(whole(PackedGraphs.from_data_list(chemical_graphs())))
    settings = dataclasses.replace(front.settings, layers=1)
    back = build_encoder(settings, 4, CHEMICAL.edge).double()
    assert back(batch, states=front(batch)).shape == (batch.num_nodes, 4)
