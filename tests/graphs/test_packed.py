import pytest
import torch
from torch_geometric.data import Data

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from tests.conftest import chemical_graphs, odd_graphs
from tests.graphs.cases import in_order_graphs, symmetric_graphs


@pytest.mark.parametrize("make", [odd_graphs, chemical_graphs])
def test_data_list_comes_back_as_it_went_in(make):
    before = make()
    after = PackedGraphs.from_data_list(before).to_data_list()
    for old, new in zip(before, after, strict=True):
        for name in ("x", "edge_index", "environment", "edge_attr"):
            assert (old.get(name) is None) == (new.get(name) is None)
            if old.get(name) is not None:
                assert torch.equal(old[name], new[name])
        assert torch.equal(old.y.nan_to_num(7), new.y.nan_to_num(7))


def test_select_is_the_same_as_choosing_from_the_list():
    packed = PackedGraphs.from_data_list(chemical_graphs())
    index = torch.tensor([4, 1, 1, 0])
    chosen, listed = packed.select(index).to_data_list(), packed.to_data_list()
    for graph, position in zip(chosen, index.tolist(), strict=True):
        for name in ("x", "edge_index", "edge_attr", "environment"):
            assert torch.equal(graph[name], listed[position][name])


def test_concatenated_parts_are_the_whole():
    packed = PackedGraphs.from_data_list(chemical_graphs())
    joined = PackedGraphs.concatenate([packed.select(torch.arange(2)), packed.select(torch.arange(2, 6))])
    for name, value in packed.tensors().items():
        assert torch.equal(joined.tensors()[name].nan_to_num(9), value.nan_to_num(9))


def test_tensors_and_back(motif):
    part = motif.part("val")
    again = PackedGraphs.from_tensors(part.tensors())
    assert again.tensors().keys() == part.tensors().keys()
    assert all(torch.equal(value, part.tensors()[name]) for name, value in again.tensors().items())
    assert "extra.motif" in part.tensors()


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Data(x=torch.ones(2, 1), y=torch.tensor([0])), "graph 1 has no edge_index"),
        (Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [2]]), y=torch.tensor([0])), "graph 1 has an edge to"),
        (Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [-1]]), y=torch.tensor([0])), "graph 1 has an edge to"),
        (
            Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0])),
            "graph 1 has 3 node features",
        ),
        (Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0.5], [1]]), y=torch.tensor([0])), "of whole numbers"),
        (Data(x=torch.ones(2, 1), edge_index=torch.zeros(3, 2).long(), y=torch.tensor([0])), "with two rows"),
        (
            Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(3), y=torch.tensor([0])),
            "graph 1 has 1 edges and features for 3",
        ),
        (Data(edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0])), "graph 1 has no x"),
        (Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0, 1])), "2 labels"),
    ],
)
def test_broken_graphs_are_named(broken, words):
    fine = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0]))
    with pytest.raises(OutlandError, match=words):
        PackedGraphs.from_data_list([fine, broken])


def test_double_precision_becomes_single():
    graph = Data(x=torch.ones(2, 1).double(), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0]))
    assert PackedGraphs.from_data_list([graph]).x.dtype == torch.float


def test_one_graph_is_no_list():
    with pytest.raises(OutlandError, match="give a list"):
        PackedGraphs.from_data_list(odd_graphs()[0])


def test_no_graphs_at_all():
    with pytest.raises(OutlandError, match="no graphs"):
        PackedGraphs.from_data_list([])


def test_the_order_of_edges_is_known(motif):
    assert motif.graphs.edge_order == (True, True)
    assert PackedGraphs.from_data_list(odd_graphs()).edge_order == (False, False)
    assert PackedGraphs.from_data_list(symmetric_graphs()).edge_order == (False, True)
    assert PackedGraphs.from_data_list(in_order_graphs()).edge_order == (True, True)


def test_the_order_of_edges_is_that_of_all_graphs(monkeypatch):
    monkeypatch.setattr("outland.graphs.edges.BLOCK", 2)
    graphs = in_order_graphs() * 2 + symmetric_graphs()
    assert PackedGraphs.from_data_list(in_order_graphs() * 3).edge_order == (True, True)
    assert PackedGraphs.from_data_list(graphs).edge_order == (False, True)
    sources = [torch.bincount(graph.edge_index[0], minlength=graph.num_nodes) for graph in graphs]
    assert PackedGraphs.from_data_list(graphs).out_degrees.tolist() == torch.cat(sources).tolist()
