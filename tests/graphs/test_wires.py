"""Sums by sparse products against plain gathering and adding."""

import pytest
import torch
from torch_geometric.data import Data

from outland.graphs import Batches, PackedGraphs
from outland.graphs.wires import Wires, gather, scatter, weighted_sum
from tests.conftest import chemical_graphs, odd_graphs, undirected, whole


def symmetric_graphs():
    random = torch.Generator().manual_seed(0)
    sizes = [(5, undirected((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))), (4, undirected((2, 1), (0, 3), (1, 3)))]
    return [Data(x=torch.randn(n, 3, generator=random), edge_index=edges, y=torch.tensor([0])) for n, edges in sizes]


def in_order_graphs():
    graphs = symmetric_graphs()
    for graph in graphs:
        graph.edge_index = graph.edge_index[:, graph.edge_index[0].argsort(stable=True)]
    return graphs


@pytest.mark.parametrize("layout", ["exact", "padded"])
@pytest.mark.parametrize("make", [odd_graphs, chemical_graphs, symmetric_graphs, in_order_graphs])
@pytest.mark.parametrize("weighed", [True, False])
def test_weighted_sums_and_their_gradients_equal_plain_ones(make, layout, weighed):
    batch = whole(PackedGraphs.from_data_list(make()), layout)
    bare = batch.replace(incoming=None, outgoing=None)
    random = torch.Generator().manual_seed(1)
    x = torch.randn(batch.num_nodes, 7, generator=random, dtype=torch.double, requires_grad=True)
    weight = torch.rand(batch.num_edges, generator=random, dtype=torch.double, requires_grad=True) if weighed else None
    wanted = [x, weight] if weighed else [x]
    target = torch.randn(batch.num_nodes, 7, generator=random, dtype=torch.double)
    found = []
    for one in (batch, bare):
        total = one.sum_neighbours(x, weight)
        found.append([total, *torch.autograd.grad(((total - target) ** 2).sum(), wanted)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_gradients_by_finite_differences():
    batch = whole(PackedGraphs.from_data_list(odd_graphs()))
    x = torch.randn(batch.num_nodes, 2, dtype=torch.double, requires_grad=True)
    weight = torch.rand(batch.num_edges, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, weight: weighted_sum(x, weight, batch.incoming, batch.outgoing), (x, weight), eps=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("make", [odd_graphs, symmetric_graphs, in_order_graphs])
def test_wires_name_each_edge_at_its_ends(make):
    batch = whole(PackedGraphs.from_data_list(make()))
    for wires, here, there in ((batch.incoming, 1, 0), (batch.outgoing, 0, 1)):
        edges = torch.arange(batch.num_edges) if wires.edges is None else wires.edges
        for node in range(batch.num_nodes):
            group = slice(int(wires.pointers[node]), int(wires.pointers[node + 1]))
            members = (batch.edge_index[here] == node).nonzero().flatten().tolist()
            assert sorted(edges[group].tolist()) == members
            assert torch.equal(batch.edge_index[there][edges[group]], wires.nodes[group])
        values = torch.randn(batch.num_edges, 2)
        assert torch.equal(wires.restored(wires.ordered(values)), values)
        plain = torch.zeros(batch.num_nodes, 2).index_add(0, batch.edge_index[here], values)
        assert torch.allclose(scatter(values, batch.edge_index[here], wires), plain, atol=1e-6)


@pytest.mark.parametrize("layout", ["exact", "padded"])
def test_every_reduction_of_a_batch_equals_its_plain_twin(layout):
    batch = whole(PackedGraphs.from_data_list(odd_graphs()), layout)
    bare = batch.replace(incoming=None, outgoing=None, members=None)
    random = torch.Generator().manual_seed(2)
    nodes = torch.randn(batch.num_nodes, 6, generator=random, dtype=torch.double, requires_grad=True)
    edges = torch.randn(batch.num_edges, 6, generator=random, dtype=torch.double, requires_grad=True)
    for name, values in (
        ("at_source", nodes),
        ("at_target", nodes),
        ("collect", edges),
        ("sum_nodes", nodes),
        ("mean_nodes", nodes),
    ):
        found = []
        for one in (batch, bare):
            result = getattr(one, name)(values)
            scale = torch.arange(1.0, result.numel() + 1, dtype=torch.double).reshape(result.shape)
            found.append((result, torch.autograd.grad((result * scale).sum(), values)[0]))
        assert torch.allclose(found[0][0], found[1][0], atol=1e-12), name
        assert torch.allclose(found[0][1], found[1][1], atol=1e-12), name


def test_rows_and_sums_are_each_other_s_gradient():
    batch = whole(PackedGraphs.from_data_list(odd_graphs()))
    x = torch.randn(batch.num_nodes, 4, dtype=torch.double, requires_grad=True)
    e = torch.randn(batch.num_edges, 4, dtype=torch.double, requires_grad=True)
    target, wires = batch.edge_index[1], batch.incoming
    assert torch.autograd.gradcheck(lambda x: gather(x, target, wires), (x,))
    assert torch.autograd.gradcheck(lambda e: scatter(e, target, wires), (e,))


def test_habits_of_edges_are_seen(motif):
    assert motif.graphs.edge_habits == (True, True)
    assert PackedGraphs.from_data_list(odd_graphs()).edge_habits == (False, False)
    assert PackedGraphs.from_data_list(symmetric_graphs()).edge_habits == (False, True)
    assert PackedGraphs.from_data_list(in_order_graphs()).edge_habits == (True, True)


def test_habits_are_those_of_all_graphs(monkeypatch):
    monkeypatch.setattr("outland.graphs.packed._AT_ONCE", 2)
    graphs = in_order_graphs() * 2 + symmetric_graphs()
    assert PackedGraphs.from_data_list(in_order_graphs() * 3).edge_habits == (True, True)
    assert PackedGraphs.from_data_list(graphs).edge_habits == (False, True)


def test_a_set_without_edges():
    graphs = PackedGraphs.from_data_list(odd_graphs()[1:3])
    batch = next(iter(Batches(graphs, torch.arange(2), 2)))
    x = torch.randn(batch.num_nodes, 3, requires_grad=True)
    total = batch.sum_neighbours(x, torch.zeros(0, requires_grad=True))
    assert not total.any()
    assert not torch.autograd.grad(total.sum(), x)[0].any()
    assert isinstance(batch.incoming, Wires)
