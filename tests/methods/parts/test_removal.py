import pytest
import torch

from outland.methods.parts.removal import removal_losses
from tests.conftest import whole


@pytest.mark.parametrize("layout", ["exact", "padded"])
def test_a_sum_over_edges_loses_its_terms(any_set, layout):
    """A loss of Σ c (1 - w) rises by an edge's own c, both directions, and by those of all edges of a node."""
    _, graphs = any_set
    batch = whole(graphs, layout)
    cost = torch.rand(batch.num_edges, dtype=torch.double, generator=torch.Generator().manual_seed(0))

    def loss(weight):
        return batch.sum_edges(cost * (0 if weight is None else 1 - weight))

    nodes, edges = removal_losses(loss, batch)
    expected = torch.zeros(batch.num_nodes, dtype=torch.double)
    both = torch.where(batch.has_reverse & (batch.edge_index[0] != batch.edge_index[1]), cost[batch.reverse], 0)
    for end in batch.edge_index:
        expected.index_add_(0, end, cost)
    loops = batch.edge_index[0] == batch.edge_index[1]
    expected.index_add_(0, batch.edge_index[0][loops], -cost[loops])  # counted at both ends
    assert torch.allclose(nodes[batch.real_nodes], expected[batch.real_nodes])
    assert torch.allclose(edges[batch.real_edges], (cost + both)[batch.real_edges])
    assert not nodes[~batch.real_nodes].any()
    assert not edges[~batch.real_edges].any()
    assert float(nodes.max()) > 0


def test_every_graph_is_asked_of_its_own_largest_number_at_most(any_set):
    _, graphs = any_set
    batch, calls = whole(graphs), []

    def loss(weight):
        calls.append(weight)
        return batch.sum_edges(torch.ones(batch.num_edges))

    removal_losses(loss, batch)
    undirected = batch.sum_edges((batch.first_direction & batch.real_edges).float())
    assert len(calls) == 1 + int(batch.node_count.max()) + int(undirected.max())
    assert all(weight.eq(0).any() for weight in calls[1:])
