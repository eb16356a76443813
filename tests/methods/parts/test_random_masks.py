import pytest
import torch

from outland.methods.parts.random_masks import random_mask
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
