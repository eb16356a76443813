import torch
from torch_geometric.data import Data

from outland.graphs import PackedGraphs
from tests.conftest import odd_graphs


def test_reverse_pairs_every_edge_with_its_other_direction():
    packed = PackedGraphs.from_data_list(odd_graphs())
    for graph, reverse in zip(
        packed.to_data_list(), packed.reverse.long().split(packed.edge_counts.tolist()), strict=True
    ):
        assert torch.equal(reverse[reverse], torch.arange(len(reverse)))
        source, target = graph.edge_index
        paired = reverse != torch.arange(len(reverse))
        assert torch.equal(source[reverse][paired], target[paired])
        assert torch.equal(target[reverse][paired], source[paired])
    # graph 3: 0-1 both ways, a self-loop, and 2->0 alone
    assert packed.reverse.split(packed.edge_counts.tolist())[3].tolist() == [1, 0, 2, 3]


def test_reverse_pairs_parallel_edges_in_order():
    double = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 0, 1, 1, 0], [1, 1, 0, 0, 1]]), y=torch.tensor([0]))
    assert PackedGraphs.from_data_list([double]).reverse.tolist() == [2, 3, 0, 1, 4]
