"""What a batch sums and gathers, against plain indexing."""

import pytest
import torch

from outland.graphs import Batches, PackedGraphs
from outland.ops import EdgeCSR
from tests.conftest import chemical_graphs, odd_graphs, whole
from tests.graphs.cases import in_order_graphs, symmetric_graphs


@pytest.mark.parametrize("layout", ["exact", "padded"])
@pytest.mark.parametrize("make", [odd_graphs, chemical_graphs, symmetric_graphs, in_order_graphs])
@pytest.mark.parametrize("weighed", [True, False])
def test_weighted_sums_and_their_gradients_equal_plain_ones(make, layout, weighed):
    batch = whole(PackedGraphs.from_data_list(make()), layout)
    bare = batch.replace(incoming=None, outgoing=None)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch.num_nodes, 7, generator=generator, dtype=torch.double, requires_grad=True)
    weight = torch.rand(batch.num_edges, generator=generator, dtype=torch.double, requires_grad=True)
    inputs = [x, weight] if weighed else [x]
    target = torch.randn(batch.num_nodes, 7, generator=generator, dtype=torch.double)
    sides = []
    for one in (batch, bare):
        total = one.sum_neighbours(*inputs)
        sides.append([total, *torch.autograd.grad(((total - target) ** 2).sum(), inputs)])
    for grouped, plain in zip(*sides, strict=True):
        assert torch.allclose(grouped, plain, atol=1e-12)


@pytest.mark.parametrize("layout", ["exact", "padded"])
def test_every_reduction_of_a_batch_equals_its_plain_form(layout):
    batch = whole(PackedGraphs.from_data_list(odd_graphs()), layout)
    bare = batch.replace(incoming=None, outgoing=None, node_ptr=None)
    generator = torch.Generator().manual_seed(2)
    nodes = torch.randn(batch.num_nodes, 6, generator=generator, dtype=torch.double, requires_grad=True)
    edges = torch.randn(batch.num_edges, 6, generator=generator, dtype=torch.double, requires_grad=True)
    for name, values in (
        ("at_source", nodes),
        ("at_target", nodes),
        ("aggregate_to_targets", edges),
        ("sum_nodes", nodes),
        ("mean_nodes", nodes),
    ):
        sides = []
        for one in (batch, bare):
            result = getattr(one, name)(values)
            scale = torch.arange(1.0, result.numel() + 1, dtype=torch.double).reshape(result.shape)
            sides.append((result, torch.autograd.grad((result * scale).sum(), values)[0]))
        assert torch.allclose(sides[0][0], sides[1][0], atol=1e-12), name
        assert torch.allclose(sides[0][1], sides[1][1], atol=1e-12), name


def test_a_set_without_edges():
    graphs = PackedGraphs.from_data_list(odd_graphs()[1:3])
    batch = next(iter(Batches(graphs, torch.arange(2), 2)))
    x = torch.randn(batch.num_nodes, 4, requires_grad=True)
    total = batch.sum_neighbours(x, torch.zeros(0, requires_grad=True))
    assert not total.any()
    assert not torch.autograd.grad(total.sum(), x)[0].any()
    assert isinstance(batch.incoming, EdgeCSR)
