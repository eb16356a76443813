import pytest
import torch

from outland.graphs import Features, PackedGraphs, Schema, Task
from outland.nn import CONVS, BackboneSettings, GraphNet, Mask
from tests.conftest import REAL, odd_graphs, whole
from tests.nn.cases import OPTIONS, doubled, network


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


def test_virtual_node_has_the_published_number_of_parameters():
    """GOOD's five-layer CMNIST network has 2,001,310; its GIN keeps ε fixed, ours learns one a layer."""
    schema = Schema(Features(3), Task("multiclass", 10, "accuracy"))
    net = GraphNet(BackboneSettings(layers=5, virtual_node=True), schema)
    assert sum(parameter.numel() for parameter in net.parameters()) - 5 == 2_001_310
