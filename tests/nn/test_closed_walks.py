import math

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from outland.graphs import Batches, PackedGraphs
from outland.graphs.induced import spanning_subgraphs
from outland.nn.closed_walks import ClosedWalks
from tests.cases import doubled
from tests.conftest import whole

GRAPHS = [nx.gnp_random_graph(9, 0.3, seed=seed) for seed in range(4)] + [
    nx.path_graph(30),
    nx.cycle_graph(6),
    nx.balanced_tree(2, 3),
    nx.house_graph(),
    nx.complete_graph(5),
    nx.empty_graph(3),
    nx.lollipop_graph(3, 4),
]


def packed() -> PackedGraphs:
    def data(graph: nx.Graph) -> Data:
        edges = torch.tensor([pair for u, v in graph.edges for pair in ((u, v), (v, u))], dtype=torch.long)
        nodes = graph.number_of_nodes()
        return Data(x=torch.ones(nodes, 1), edge_index=edges.reshape(-1, 2).T, y=torch.tensor([0]), num_nodes=nodes)

    return PackedGraphs.from_data_list([data(graph) for graph in GRAPHS])


def enumerated(graph: nx.Graph, start: int, steps: int) -> int:
    """Closed walks from a node that never turn back, one by one."""
    walks = [[start, neighbour] for neighbour in graph[start]]
    for _ in range(steps - 1):
        walks = [[*walk, after] for walk in walks for after in graph[walk[-1]] if after != walk[-2]]
    return sum(walk[-1] == start for walk in walks)


def counts(batch, edge_weight=None, longest=7):
    return ClosedWalks(longest, 8).double().counts(batch, edge_weight)


class TestClosedWalks:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    def test_walks_are_those_one_can_take(self, layout):
        expected = [
            [enumerated(graph, node, steps) for steps in range(3, 8)] for graph in GRAPHS for node in sorted(graph)
        ]
        got = counts(doubled(whole(packed(), layout)))
        assert torch.equal(got[: len(expected)], torch.tensor(expected, dtype=torch.double))
        assert float(got[len(expected) :].abs().sum()) == 0
        assert sum(map(sum, expected)) > 1000

    def test_a_ring_is_no_chain(self):
        _, path, cycle, tree, _ = counts(doubled(whole(packed()))).split([36, 30, 6, 15, 20])
        assert float(path.abs().sum()) == float(tree.abs().sum()) == 0
        assert cycle.tolist() == [[0, 0, 0, 2, 0]] * 6  # one each way round

    def test_an_edge_of_weight_0_is_none(self):
        graphs = packed()
        batch = doubled(whole(graphs))
        keep = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(1)) < 0.7
        keep &= keep[batch.reverse]
        assert 20 < int((~keep).sum()) < batch.num_edges - 20
        without = counts(doubled(whole(spanning_subgraphs(graphs, keep))))
        assert torch.equal(counts(batch, keep.double()), without)
        assert float((counts(batch) - without).sum()) > 100

    @pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
    def test_an_edge_of_any_other_weight_is_there(self, share):
        batch = doubled(whole(packed()))
        weight = torch.full((batch.num_edges,), share, dtype=torch.double, requires_grad=True)
        assert torch.equal(counts(batch, weight), counts(batch))
        assert torch.equal(
            counts(batch, weight * (batch.edge_batch == 0)), counts(batch) * (batch.node_batch == 0)[:, None]
        )

    def test_other_graphs_of_a_batch_do_not_matter(self):
        graphs = packed()
        together = counts(doubled(whole(graphs)))
        apart = [counts(doubled(batch)) for batch in Batches(graphs, torch.arange(len(graphs)), 2)]
        assert torch.equal(torch.cat(apart), together)

    def test_vectors_are_of_logarithms(self):
        module, batch = ClosedWalks(6, 4).double(), doubled(whole(packed()))
        with torch.no_grad():
            module.linear.weight.zero_()
            module.linear.bias.fill_(0.5)
            module.linear.weight[2, 3] = 2.0  # of walks of six steps
            vectors = module(batch)
        ring = slice(36 + 30, 36 + 30 + 6)
        assert vectors[ring, 2].tolist() == pytest.approx([0.5 + 2 * math.log(3)] * 6, abs=1e-12)
        assert vectors[ring, 0].tolist() == [0.5] * 6
