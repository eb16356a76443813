import pytest
import torch

from outland.methods.parts.ratio import ratio_penalty
from outland.nn import Mask
from tests.conftest import whole


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
