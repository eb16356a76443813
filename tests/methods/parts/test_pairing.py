import pytest
import torch

from outland.methods.parts.pairing import all_pairs, permutation, reordered
from outland.methods.parts.risk import mean_risk
from tests.conftest import whole


class TestPairs:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    def test_all_pairs_equal_a_loop(self, any_set, layout):
        _, graphs = any_set
        batch = whole(graphs, layout)
        count = batch.num_graphs
        first, second = torch.randn(2, count, 5)
        sums, pairs = all_pairs(first, second, batch)
        assert sums.shape == (count**2, 5)
        real = batch.graph_mask if batch.graph_mask is not None else torch.ones(count, dtype=torch.bool)
        for i in range(count):
            for j in range(count):
                row = i * count + j
                assert torch.equal(sums[row], first[i] + second[j])
                assert torch.equal(pairs.y[row].nan_to_num(9), batch.y[i].nan_to_num(9))
                assert pairs.graph_mask is None or pairs.graph_mask[row] == (real[i] and real[j])
        assert (pairs.graph_mask is None) == (layout == "exact")

    def test_padding_in_either_place_does_not_count(self, any_set):
        """With two padding graphs whose embeddings are nonsense the loss is that of the real pairs."""
        schema, graphs = any_set
        exact = whole(graphs)
        h, e = torch.randn(2, 6, schema.task.outputs, dtype=torch.double)
        expected = mean_risk(*all_pairs(h, e, exact), schema.task)
        wild = torch.full((2, schema.task.outputs), 1e6, dtype=torch.double)
        padded = exact.replace(
            y=torch.cat([exact.y, exact.y[:2]]),
            node_count=torch.cat([exact.node_count, torch.zeros(2, dtype=torch.long)]),
            graph_mask=torch.arange(8) < 6,
        )
        first, second = (torch.cat([part, wild]).requires_grad_() for part in (h, e))
        actual = mean_risk(*all_pairs(first, second, padded), schema.task)
        assert actual.item() == pytest.approx(expected.item(), abs=1e-12)
        for grad in torch.autograd.grad(actual, (first, second)):
            assert (grad[6:] == 0).all()
            assert (grad[:6] != 0).any()

    @pytest.mark.parametrize("layout", ["exact", "padded"])
    def test_reordered_equals_a_loop(self, any_set, layout):
        _, graphs = any_set
        batch = whole(graphs, layout)
        order = permutation(batch, torch.Generator().manual_seed(1))
        values = torch.randn(batch.num_graphs, 5)
        actual, partners = reordered(values, batch, order)
        for index, taken in enumerate(order.tolist()):
            assert torch.equal(actual[index], values[taken])
            assert torch.equal(partners.y[index].nan_to_num(9), batch.y[taken].nan_to_num(9))
        assert not torch.equal(order, torch.arange(batch.num_graphs))
        if layout == "padded":
            assert torch.equal(partners.graph_mask, batch.graph_mask)


@pytest.mark.parametrize("layout", ["exact", "padded"])
def test_a_permutation_moves_real_graphs_only(any_set, layout):
    batch = whole(any_set[1], layout)
    order = permutation(batch, torch.Generator().manual_seed(1))
    assert sorted(order[:6].tolist()) == list(range(6))
    assert order[6:].tolist() == list(range(6, batch.num_graphs))
    assert order[:6].tolist() != list(range(6))
