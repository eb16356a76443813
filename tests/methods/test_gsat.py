import math

import pytest
import torch
from torch import nn

from outland.errors import OutlandError
from outland.graphs import Batches
from outland.methods import Progress, method_settings
from outland.nn import Mask
from tests.methods.cases import built, odd_batch
from tests.methods.families import AttentionCase


def steady_coins(score, temperature, random):
    return ((score + torch.arange(len(score)).to(score) % 5 - 2) / temperature).sigmoid()


@pytest.fixture
def steady_draws(monkeypatch):
    """Coins fall the same in every layout and step."""
    monkeypatch.setattr("outland.methods.gsat.concrete", steady_coins)


class TestGSAT(AttentionCase):
    name = "gsat"
    zero = {"bottleneck": 0}
    one_pass = False
    still = {"dropout": 0}

    def zero_strength(self, method):
        """Every coin shows heads."""
        torch.nn.init.zeros_(method.attention.last.weight)
        torch.nn.init.constant_(method.attention.last.bias, 100.0)

    @pytest.mark.usefixtures("steady_draws")
    def test_padding_changes_neither_losses_nor_gradients(self, any_set):
        super().test_padding_changes_neither_losses_nor_gradients(any_set)

    @pytest.mark.usefixtures("steady_draws")
    def test_padding_changes_nothing_over_nodes_either(self):
        results = []
        for layout in ("exact", "padded"):
            method = built("gsat", over="node", dropout=0)
            terms = method.loss(odd_batch(layout), Progress())
            sum(terms.values()).backward()
            results.append([*terms.values(), *(p.grad for p in method.parameters() if p.grad is not None)])
        for first, second in zip(*results, strict=True):
            assert torch.allclose(first, second, atol=1e-9)

    @pytest.mark.usefixtures("steady_draws")
    @pytest.mark.parametrize("over", ["edge", "node"])
    @pytest.mark.parametrize("divergence", ["sample", "probability"])
    def test_loss_follows_the_schedule_and_prices_each_coin_alike(self, over, divergence):
        method, batch = built("gsat", over=over, divergence=divergence, bottleneck=0.1, dropout=0), odd_batch()
        score = method.attention(method.classifier.encoder(batch), batch)
        alpha = steady_coins(score, 1.0, None) if divergence == "sample" else score.sigmoid()
        for epoch, r in ((0, 0.9), (10, 0.8), (25, 0.7)):
            term = method.loss(batch, Progress(epoch=epoch))["divergence"].item()
            coins = [a * math.log(a / r) + (1 - a) * math.log((1 - a) / (1 - r)) for a in alpha.tolist()]
            assert term == pytest.approx(0.1 * sum(coins) / len(coins), abs=1e-6)

    def test_weights_are_symmetric_unless_told_otherwise(self, motif):
        batch = next(iter(Batches(motif.graphs, motif["train"][:20], 20)))
        alpha = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0))
        method = built("gsat")
        weight = method.weigh(alpha, batch).edge
        assert torch.equal(weight, weight[batch.reverse])
        pairs = {pair: index for index, pair in enumerate(map(tuple, batch.edge_index.T.tolist()))}
        for (u, v), index in pairs.items():
            assert weight[index].item() == pytest.approx((alpha[index] + alpha[pairs[v, u]]).item() / 2)
        assert torch.equal(built("gsat", symmetric=False).weigh(alpha, batch).edge, alpha)
        coins = torch.rand(batch.num_nodes)
        product = built("gsat", over="node").weigh(coins, batch).edge
        assert product.tolist() == pytest.approx([(coins[u] * coins[v]).item() for u, v in pairs])

    @pytest.mark.parametrize("over", ["edge", "node"])
    def test_inference_draws_nothing_and_training_does(self, over):
        method, batch = built("gsat", over=over).eval(), odd_batch()
        assert torch.equal(method(batch), method(batch))
        assert method.loss(batch, Progress())["risk"] != method.loss(batch, Progress())["risk"]

    @pytest.mark.parametrize("changes", [{"over": "edge"}, {"over": "node"}, {"symmetric": False}], ids=str)
    def test_masks_are_symmetric_probabilities(self, changes):
        method, batch = built("gsat", **changes).eval(), odd_batch()
        mask = method.masks(batch)["stable"]
        assert torch.equal(mask.edge, mask.edge[batch.reverse])
        assert ((mask.edge >= 0) & (mask.edge <= 1)).all()
        assert (mask.node == 1).all() == (method.settings.over == "edge")

    def test_no_attention_is_a_graph_without_edges(self):
        method, batch = built("gsat").eval(), odd_batch()
        nn.init.zeros_(method.attention.last.weight)
        nn.init.constant_(method.attention.last.bias, -1e4)
        alone = Mask(torch.ones(batch.num_nodes).double(), torch.zeros(batch.num_edges).double())
        assert torch.equal(method(batch), method.classifier(batch, alone))
        nn.init.constant_(method.attention.last.bias, 1e4)
        assert torch.allclose(method(batch), method.classifier(batch))

    def test_ranges(self):
        for bad in ({"final_r": 1.0}, {"interval": 0}, {"temperature": 0}, {"bottleneck": -1}):
            with pytest.raises(OutlandError):
                method_settings("gsat", bad)
        assert method_settings("gsat:molecules", {}).over == "node"
