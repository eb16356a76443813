import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from outland.errors import OutlandError
from outland.graphs import Batches, PackedGraphs
from outland.methods import Progress, gsat, method_settings
from outland.nn import Mask
from outland.ops import segment_norm
from tests.cases import doubled
from tests.conftest import odd_graphs, whole
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


def test_r_falls_by_steps_to_its_end():
    settings = gsat.GSATSettings(interval=10, first_r=0.9, step_r=0.1, final_r=0.7)
    actual = [settings.r(Progress(epoch=epoch)) for epoch in (0, 1, 9, 10, 19, 20, 30, 99)]
    assert actual == pytest.approx([0.9, 0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.7])


def graph_rows(batch, over):
    owner = batch.edge_batch if over == "edge" else batch.node_batch
    return [(owner == g).nonzero()[:, 0] for g in range(batch.num_graphs)]


def test_golden_divergence():
    alpha = torch.tensor([0.2, 0.5, 0.9], dtype=torch.double)
    golden = [0.5341108087, 0.0871766936, 0.1163217566]
    assert gsat.bernoulli_kl(alpha, 0.7, eps=0).tolist() == pytest.approx(golden, abs=1e-9)
    assert gsat.bernoulli_kl(alpha, 0.7, eps=0).mean().item() == pytest.approx(0.2458697530, abs=1e-9)
    # The 1e-6 inside both logarithms adds itself, to first order, whatever α and r are.
    assert (gsat.bernoulli_kl(alpha, 0.7) - 1e-6).tolist() == pytest.approx(golden, abs=1e-9)


@pytest.mark.parametrize("r", [0.5, 0.7, 0.9])
def test_divergence_is_0_at_r_and_finite_at_the_ends(r):
    at_r = gsat.bernoulli_kl(torch.tensor([r], dtype=torch.double), r)
    assert at_r.item() == pytest.approx(0, abs=1e-6)
    alpha = torch.linspace(0, 1, 101).requires_grad_()
    divergence = gsat.bernoulli_kl(alpha, r)
    assert (divergence > -1e-5).all()
    (grad,) = torch.autograd.grad(divergence.sum(), alpha)
    assert grad.isfinite().all()


def test_expected_divergence_at_r():
    """The card's numbers: sampled coins are never free, and their mean is not r."""
    random = torch.Generator().manual_seed(0)
    for r, mean in ((0.5, 0.5), (0.7, 0.638)):
        score = torch.full((200_000,), math.log(r / (1 - r)), dtype=torch.double)
        alpha = gsat.concrete(score, 1.0, random)
        assert gsat.bernoulli_kl(alpha, r).mean().item() == pytest.approx(0.193, abs=2e-3)
        assert alpha.mean().item() == pytest.approx(mean, abs=2e-3)


def test_cold_coins_are_hard_and_fair():
    score = torch.full((20_000,), math.log(0.3 / 0.7))
    alpha = gsat.concrete(score, 1e-3, torch.Generator().manual_seed(0))
    assert ((alpha < 0.01) | (alpha > 0.99)).float().mean().item() > 0.995
    assert alpha.mean().item() == pytest.approx(0.3, abs=3 * math.sqrt(0.21 / 20_000))
    assert alpha.isfinite().all()


@pytest.mark.parametrize("over", ["edge", "node"])
def test_scores_equal_a_loop(over):
    batch, net = odd_batch(), gsat.AttentionScore(8, over, 0.0).double()
    wide = 16 if over == "edge" else 8
    assert [tuple(p.shape) for p in net.parameters()] == [(2 * wide, wide), (8, 2 * wide), (1, 8), (1,)]
    h = torch.randn(batch.num_nodes, 8, dtype=torch.double)
    actual = net(h, batch)
    rows = h if over == "node" else torch.stack([torch.cat([h[u], h[v]]) for u, v in batch.edge_index.T.tolist()])
    for index in graph_rows(batch, over):
        if len(index) > 1:
            hidden = functional.instance_norm(net.first(rows[index]).T[None])[0].T.relu()
            hidden = functional.instance_norm(net.second(hidden).T[None])[0].T.relu()
            assert torch.allclose(actual[index], net.last(hidden)[:, 0])


def test_a_graph_with_a_single_edge():
    graphs = PackedGraphs.from_data_list(odd_graphs()[3:4])
    batch = doubled(whole(graphs))
    single = batch.replace(
        edge_index=batch.edge_index[:, 3:],
        edge_batch=batch.edge_batch[3:],
        reverse=torch.zeros(1, dtype=torch.long),
        edge_count=torch.ones(1, dtype=torch.long),
    )
    assert (segment_norm(torch.randn(1, 4), single.edge_segments) == 0).all()
    assert all(term.isfinite() for term in built("gsat").loss(single, Progress()).values())
