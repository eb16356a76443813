import pytest
import torch

from outland.methods.parts.masks import random_mask, ratio_penalty
from outland.nn import Mask
from tests.conftest import whole
from tests.methods.cases import motif_batch


class TestRandomMask:
    @pytest.mark.parametrize("layout", ["exact", "padded"])
    def test_exact_quota_in_every_graph(self, motif, layout):
        batch = motif_batch(motif, 40, layout)
        mask = random_mask(batch, 0.2, torch.Generator().manual_seed(0), torch.float)
        zeros = batch.sum_nodes(1 - mask.node)
        assert torch.equal(zeros, (batch.node_count * 0.2 + 1e-6).floor())
        dropped = batch.sum_edges(1 - mask.edge)
        assert torch.equal(dropped, 2 * (batch.edge_count / 2 * 0.2 + 1e-6).floor())
        assert torch.equal(mask.edge, mask.edge[batch.reverse])

    def test_nothing_dropped_is_the_whole_graph(self, any_set):
        batch = whole(any_set[1])
        mask = random_mask(batch, 0.0, torch.Generator(), torch.float)
        assert mask.node.eq(1).all()
        assert mask.edge.eq(1).all()

    def test_draws_come_from_the_generator_alone(self, motif):
        batch = motif_batch(motif)
        first = random_mask(batch, 0.2, torch.Generator().manual_seed(5), torch.float)
        torch.rand(100)
        again = random_mask(batch, 0.2, torch.Generator().manual_seed(5), torch.float)
        second = random_mask(batch, 0.2, torch.Generator().manual_seed(6), torch.float)
        assert torch.equal(first.edge, again.edge)
        assert not torch.equal(first.edge, second.edge)


class TestRatio:
    def batch(self, any_set):
        return whole(any_set[1])

    def test_value_by_hand(self, any_set):
        batch = self.batch(any_set)
        mask = Mask.full(batch, 0.3)
        with_edges = (batch.edge_count > 0).float().mean().item()
        hard = ratio_penalty(mask, batch, 0.5, 0.4).item()
        assert hard == pytest.approx(0.2 + 0.5 + with_edges * (0.1 + 0.6), abs=1e-6)
        none = ratio_penalty(mask, batch, 0.5, 0.4, "none").item()
        assert none == pytest.approx(0.2 + with_edges * 0.1, abs=1e-6)

    def test_hard_indicator_has_no_gradient_and_soft_has(self, any_set):
        batch = self.batch(any_set)
        gradients = {}
        for indicator in ("none", "hard", "soft"):
            node = torch.full((batch.num_nodes,), 0.45, requires_grad=True)
            edge = torch.full((batch.num_edges,), 0.45)
            ratio_penalty(Mask(node, edge), batch, 0.5, 0.5, indicator).backward()
            gradients[indicator] = node.grad
        assert torch.equal(gradients["none"], gradients["hard"])
        assert not torch.allclose(gradients["none"], gradients["soft"])

    def test_soft_indicator_prefers_uneven_masks(self, any_set):
        """Half of the nodes at 1 and half at 0 costs nothing; all at one half costs more under `soft` alone."""
        batch = whole(any_set[1].select(torch.tensor([2])))
        uneven, even = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([0.62, 0.62, 0.62, 0.14])
        no_edges = torch.zeros(0)
        assert ratio_penalty(Mask(uneven, no_edges), batch, 0.5, 0.5, "soft").item() == pytest.approx(0, abs=1e-3)
        assert ratio_penalty(Mask(even, no_edges), batch, 0.5, 0.5, "soft").item() > 0.15
        assert ratio_penalty(Mask(even, no_edges), batch, 0.5, 0.5, "none").item() == pytest.approx(0, abs=1e-6)
