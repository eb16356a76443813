import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.shift import WeightedGraphs, measure_shift
from outland.shift.pair import make_pair
from tests.shift.cases import QUICK, random_graphs


def test_weights_of_pyg_graphs_are_taken_along():
    listed = random_graphs(30, seed=1)
    for graph in listed:
        graph.edge_weight = torch.full((graph.edge_index.shape[1],), 0.25)
    pair = make_pair(listed, random_graphs(30, seed=2))
    first = int(pair.graphs.graphs.edge_counts[:30].sum())
    assert torch.equal(pair.graphs.edge_weight[:first], torch.full((first,), 0.25))
    assert bool((pair.graphs.edge_weight[first:] == 1).all())


def test_the_same_graphs_are_known_in_any_order_and_by_labels_and_weights_too():
    graphs = random_graphs(30, seed=1)
    assert make_pair(graphs, graphs[::-1]).identical()
    assert not make_pair(graphs, random_graphs(30, seed=2)).identical()
    assert not make_pair(graphs, graphs[:25]).identical()
    other = [graph.clone() for graph in graphs]
    other[4].y = (other[4].y + 1) % 3
    assert not make_pair(graphs, other).identical()
    assert make_pair(graphs, other, labels=False).identical()
    packed = PackedGraphs.from_data_list(graphs)
    fainter = WeightedGraphs(packed, node_weight=torch.full((len(packed.x),), 0.5))
    assert not make_pair(fainter, packed).identical()


def test_labels_of_every_kind():
    yes_no = random_graphs(30, seed=1), random_graphs(30, seed=2)
    for graphs in yes_no:
        for number, graph in enumerate(graphs):
            graph.y = torch.tensor([[float("nan") if number == 0 else float(number % 2), 1.0]])
    pair = make_pair(*yes_no)
    assert pair.class_count == 2
    assert (pair.classes == -1).sum() == 2
    assert "2 graphs without a label are left out" in pair.notes
    numbers = random_graphs(30, seed=1), random_graphs(30, seed=2)
    for graphs in numbers:
        for number, graph in enumerate(graphs):
            graph.y = torch.tensor([number / 7])
    assert torch.bincount(make_pair(*numbers).classes).tolist() == [14, 16, 14, 16]
    bare = [graph.clone() for graph in random_graphs(30)]
    for graph in bare:
        del graph.y
    assert not make_pair(bare, bare).labelled
    half = make_pair(bare, random_graphs(30))
    assert not half.labelled
    assert half.notes == ("only one of the sets has labels: they are not used",)


def test_packed_graphs_and_lists_are_the_same():
    first, second = random_graphs(30, seed=1), random_graphs(30, seed=2)
    listed = make_pair(first, second)
    packed = make_pair(PackedGraphs.from_data_list(first), PackedGraphs.from_data_list(second))
    assert torch.equal(listed.graphs.graphs.x, packed.graphs.graphs.x)
    assert listed.schema == packed.schema
    assert torch.equal(listed.classes, packed.classes)


def wide(count):
    graphs = random_graphs(count)
    for graph in graphs:
        graph.x = torch.cat([graph.x, graph.x], 1)
    return graphs


def whole(count):
    graphs = random_graphs(count)
    for graph in graphs:
        graph.x = graph.x.round().abs().long()
    return graphs


def with_edges(count):
    graphs = random_graphs(count)
    for graph in graphs:
        graph.edge_attr = torch.ones(graph.edge_index.shape[1], 1)
    return graphs


def broken(count):
    graphs = random_graphs(count)
    graphs[3].x[0, 0] = float("nan")
    return graphs


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (wide(30), "the first set has 3 node features and the second 6"),
        (whole(30), "node features are real numbers in one set and categories in the other"),
        (with_edges(30), "only one of the two sets has edge features"),
        (random_graphs(19), "the second set has 19 graphs; at least 20 are needed"),
        ([], "the second set: it has no graphs"),
        (broken(30), "graph 33, node 0: a feature is NaN or infinite"),
        ([3] * 30, "the second set: graph 0 is a int, not a PyG Data"),
    ],
)
def test_sets_that_cannot_be_compared(second, sentence):
    with pytest.raises(OutlandError, match=sentence):
        measure_shift(random_graphs(30, seed=1), second, settings=QUICK)
