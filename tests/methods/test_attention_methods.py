"""CAL and GSAT: methods that weigh nodes and edges by attention."""

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from outland.errors import OutlandError
from outland.graphs import Batches, PackedGraphs, Task
from outland.methods import Progress, build_method, find_method, method_settings
from outland.methods.cal import uniform_divergence
from outland.methods.parts import attention as parts
from outland.methods.parts.schedules import staircase
from outland.nn import BackboneSettings, Mask
from outland.settings import describe
from outland.training.stepper import Stepper
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import REAL, odd_graphs, whole

CLASSES = Task("multiclass", 3, "accuracy")


def odd_batch(layout="exact"):
    return doubled(whole(PackedGraphs.from_data_list(odd_graphs()), layout))


def built(name, schema=REAL, backbone=SMALL, **changes):
    torch.manual_seed(0)
    method = build_method(name, schema, backbone, method_settings(name, changes)).double()
    method.reseed(0, torch.device("cpu"))
    return method


def plain_norm(layer, x):
    """Batch norm in training mode by PyTorch's own function."""
    return functional.batch_norm(x, None, None, layer.weight, layer.bias, training=True, eps=layer.eps)


def plain_branch(branch, h, mask, batch):
    """A branch with a loop over edges and one over graphs."""
    x = plain_norm(branch.norm, h * mask.node[:, None])
    degree = [torch.ones((), dtype=h.dtype) for _ in range(len(x))]
    for place, target in enumerate(batch.edge_index[1].tolist()):
        degree[target] = degree[target] + mask.edge[place]
    heard = [x[i] / degree[i] for i in range(len(x))]
    for place, (source, target) in enumerate(batch.edge_index.T.tolist()):
        scale = (degree[source] * degree[target]).sqrt()
        heard[target] = heard[target] + mask.edge[place] * x[source] / scale
    z = functional.linear(torch.stack(heard), branch.conv.linear.weight, branch.conv.linear.bias).relu()
    pooled = [z[batch.node_batch == g] for g in range(batch.num_graphs)]
    return torch.stack([rows.mean(0) if branch.pool == "mean" else rows.sum(0) for rows in pooled])


def plain_head(head, h):
    hidden = functional.linear(plain_norm(head.first_norm, h), head.first.weight, head.first.bias).relu()
    return functional.linear(plain_norm(head.last_norm, hidden), head.last.weight, head.last.bias)


class PlainCausal(nn.Module):
    """CAL's causal side as an ordinary classifier: the branch's convolution is one more layer."""

    def __init__(self, method):
        super().__init__()
        self.encoder = copy.deepcopy(method.encoder)
        self.causal, self.causal_head = copy.deepcopy(method.causal), copy.deepcopy(method.causal_head)

    def forward(self, batch):
        full = Mask.full(batch, 1.0, torch.double)
        return plain_head(self.causal_head, plain_branch(self.causal, self.encoder(batch), full, batch))


class AllCausal(nn.Module):
    """Attention that leaves nothing to the trivial part."""

    def forward(self, h, batch):
        return Mask.full(batch, 0.0, h.dtype), Mask.full(batch, 1.0, h.dtype)


def steady_coins(score, temperature, random):
    return ((score + torch.arange(len(score)).to(score) % 5 - 2) / temperature).sigmoid()


def steady_pairs(batch, random):
    """Each graph gets the next one's trivial part."""
    real = batch.num_graphs if batch.graph_mask is None else int(batch.graph_mask.sum())
    return torch.tensor([*range(1, real), 0, *range(real, batch.num_graphs)])


@pytest.fixture
def steady_draws(monkeypatch):
    """Coins and pairs fall the same in every layout and step."""
    monkeypatch.setattr("outland.methods.gsat.concrete", steady_coins)
    monkeypatch.setattr("outland.methods.cal.permutation", steady_pairs)


class TestCAL(MethodCase):
    name = "cal"
    zero = {"uniform": 0, "mixed": 0}

    def test_zero_strength_is_erm(self, any_set):
        """No backbone ends in CAL's branch and head, so ERM trains a plain network that does, written with loops."""
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, **self.zero)
        method.attention = AllCausal()
        erm = build_method("erm", schema, SMALL, method_settings("erm", {})).double()
        erm.classifier = PlainCausal(method)
        batch = doubled(whole(graphs))
        terms = stepper.backward(stepper.optimizers[0], batch, Progress())
        reference = Stepper(erm, FRAME)
        expected = reference.backward(reference.optimizers[0], batch, Progress())
        assert sum(terms.values()).item() == pytest.approx(expected["risk"].item(), abs=1e-12)
        found = dict(method.named_parameters())
        compared = 0
        for name, parameter in erm.classifier.named_parameters():
            assert (found[name].grad is None) == (parameter.grad is None), name
            if parameter.grad is not None:
                assert torch.allclose(found[name].grad, parameter.grad, atol=1e-9), name
                compared += 1
        assert compared > 20
        method.train()
        assert torch.allclose(method(batch), erm.classifier(batch), atol=1e-9)

    @pytest.mark.usefixtures("steady_draws")
    def test_padding_changes_neither_losses_nor_gradients(self, any_set):
        super().test_padding_changes_neither_losses_nor_gradients(any_set)

    def test_only_the_trivial_part_is_asked_to_know_nothing(self, any_set):
        schema, graphs = any_set
        batch = doubled(whole(graphs))
        found = self.build(schema, uniform=0.7).loss(batch, Progress())["uniform"]
        fresh = self.build(schema, uniform=0.7)
        _, trivial = fresh.split(batch)
        expected = uniform_divergence(fresh.trivial_head(trivial, batch), batch, schema.task).mean()
        assert found.item() == pytest.approx(0.7 * expected.item(), abs=1e-12)

    def test_the_share_of_the_causal_part_is_told(self, any_set):
        schema, graphs = any_set
        for layout in ("exact", "padded"):
            method, batch = self.build(schema), doubled(whole(graphs, layout))
            method.loss(batch, Progress())
            _, causal = method.attention(self.build(schema).encoder(batch), batch)
            expected = causal.node[batch.real_nodes].mean().item()
            assert method.watch()["stable_share"].item() == pytest.approx(expected, abs=1e-12)

    def test_golden(self):
        logits = torch.tensor([[1, 0, -1]], dtype=torch.double)
        batch = odd_batch()
        assert uniform_divergence(logits, batch, CLASSES).item() == pytest.approx(0.3089936758, abs=1e-9)
        one = uniform_divergence(torch.ones(1, 1).double(), batch, Task("binary", 1, "rocauc"))
        assert one.item() == pytest.approx(0.1201145070, abs=1e-9)

    @pytest.mark.parametrize("kind", ["multiclass", "binary", "regression"])
    def test_divergence_is_never_negative_and_0_where_nothing_is_known(self, kind):
        y = torch.tensor([[0.1, 2.0], [float("nan"), 1.0], [0.5, float("nan")]], dtype=torch.double)
        batch = odd_batch().replace(y=y, node_count=torch.ones(3))
        task = Task(kind, 2, "accuracy")
        means = torch.tensor([0.3, 1.5], dtype=torch.double)
        nothing = means.expand(3, 2) if kind == "regression" else torch.zeros(3, 2).double()
        assert uniform_divergence(nothing, batch, task).tolist() == pytest.approx([0, 0, 0], abs=1e-12)
        if kind == "multiclass":  # a constant added to all classes says nothing either
            assert uniform_divergence(nothing + 5, batch, task).tolist() == pytest.approx([0, 0, 0], abs=1e-12)
        logits = 5 * torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
        assert (uniform_divergence(logits, batch, task) > 0).all()

    def test_divergence_equals_torch(self):
        logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
        uniform = torch.full_like(logits, 1 / 3)
        expected = functional.kl_div(logits.log_softmax(1), uniform, reduction="none").sum(1)
        assert torch.allclose(uniform_divergence(logits, odd_batch(), CLASSES), expected)

    @pytest.mark.parametrize("pool", ["mean", "sum"])
    def test_branches_equal_plain_loops(self, pool):
        method, batch = built("cal", backbone=BackboneSettings(width=8, layers=2, dropout=0.0, pool=pool)), odd_batch()
        h = torch.randn(batch.num_nodes, 8, dtype=torch.double)
        trivial, causal = method.attention(h, batch)
        for branch, mask in ((method.causal, causal), (method.trivial, trivial)):
            assert torch.allclose(branch(h, mask, batch), plain_branch(branch, h, mask, batch), atol=1e-10)

    def test_the_authors_pool_is_a_setting(self):
        assert built("cal").causal.pool == "mean"
        assert built("cal", pool="sum").trivial.pool == "sum"

    def test_attention_equals_a_loop_and_sums_to_one(self):
        method, batch = built("cal").attention, odd_batch()
        h = torch.randn(batch.num_nodes, 8, dtype=torch.double)
        trivial, causal = method(h, batch)
        assert torch.allclose(trivial.node + causal.node, torch.ones(batch.num_nodes).double())
        assert torch.allclose(trivial.edge + causal.edge, torch.ones(batch.num_edges).double())
        for place, (u, v) in enumerate(batch.edge_index.T.tolist()):
            pair = method.edge(torch.cat([h[u], h[v]])).softmax(0)
            assert torch.allclose(pair, torch.stack([trivial.edge[place], causal.edge[place]]))
        for u in range(batch.num_nodes):
            assert torch.allclose(method.node(h[u]).softmax(0)[1], causal.node[u])

    def test_the_trivial_side_rests_at_zero_strength(self):
        method, batch = built("cal", **self.zero), odd_batch()
        sum(method.loss(batch, Progress()).values()).backward()
        for side in (method.trivial, method.trivial_head, method.mixed_head):
            assert all((parameter.grad == 0).all() for parameter in side.parameters())
        assert any((parameter.grad != 0).any() for parameter in method.attention.parameters())

    @pytest.mark.parametrize("merge", ["add", "concat"])
    def test_mixed_input_is_the_causal_part_with_the_permuted_trivial_part(self, merge, monkeypatch):
        method, batch = built("cal", merge=merge, uniform=0.3), odd_batch()
        causal, trivial = method.split(batch)
        for order in (torch.arange(6), torch.tensor([3, 0, 1, 5, 4, 2])):
            monkeypatch.setattr("outland.methods.cal.permutation", lambda batch, random, order=order: order)
            both = [causal + trivial[order], torch.cat([causal, trivial[order]], 1)][merge == "concat"]
            expected = 0.3 * functional.cross_entropy(plain_head(method.mixed_head, both), batch.y)
            assert method.loss(batch, Progress())["mixed"].item() == pytest.approx(expected.item(), abs=1e-9)

    def test_predictions_rest_on_the_causal_part_alone(self):
        method, batch = built("cal").eval(), odd_batch()
        before = method(batch)
        assert torch.equal(before, method(batch))
        for name in method.training_only:
            for parameter in getattr(method, name).parameters():
                nn.init.normal_(parameter)
        assert torch.equal(before, method(batch))
        counts = method.parameter_counts()
        assert counts["total"] - counts["inference"] == sum(counts[name] for name in method.training_only)

    def test_masks_are_symmetric_complements(self):
        method, batch = built("cal").eval(), odd_batch()
        masks = method.masks(batch)
        assert list(masks) == ["stable", "environment"]
        assert torch.equal(masks["stable"].edge, masks["stable"].edge[batch.reverse])
        assert torch.allclose(masks["stable"].edge + masks["environment"].edge, torch.ones(()).double())
        assert torch.allclose(masks["stable"].node + masks["environment"].node, torch.ones(()).double())


def graph_rows(batch, over):
    owner = batch.edge_batch if over == "edge" else batch.node_batch
    return [(owner == g).nonzero()[:, 0] for g in range(batch.num_graphs)]


class TestGSAT(MethodCase):
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
        for one, other in zip(*results, strict=True):
            assert torch.allclose(one, other, atol=1e-9)

    def test_golden(self):
        alpha = torch.tensor([0.2, 0.5, 0.9], dtype=torch.double)
        golden = [0.5341108087, 0.0871766936, 0.1163217566]
        assert parts.bernoulli_kl(alpha, 0.7, eps=0).tolist() == pytest.approx(golden, abs=1e-9)
        assert parts.bernoulli_kl(alpha, 0.7, eps=0).mean().item() == pytest.approx(0.2458697530, abs=1e-9)
        # The 1e-6 inside both logarithms adds itself, to first order, whatever α and r are.
        assert (parts.bernoulli_kl(alpha, 0.7) - 1e-6).tolist() == pytest.approx(golden, abs=1e-9)

    @pytest.mark.parametrize("r", [0.5, 0.7, 0.9])
    def test_divergence_is_0_at_r_and_finite_at_the_ends(self, r):
        at_r = parts.bernoulli_kl(torch.tensor([r], dtype=torch.double), r)
        assert at_r.item() == pytest.approx(0, abs=1e-6)
        alpha = torch.linspace(0, 1, 101).requires_grad_()
        divergence = parts.bernoulli_kl(alpha, r)
        assert (divergence > -1e-5).all()
        (slope,) = torch.autograd.grad(divergence.sum(), alpha)
        assert slope.isfinite().all()

    def test_schedule(self):
        found = [staircase(epoch, 10, 0.9, 0.1, 0.7) for epoch in (0, 1, 9, 10, 19, 20, 30, 99)]
        assert found == pytest.approx([0.9, 0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.7])

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

    def test_expected_divergence_at_r(self):
        """The card's numbers: sampled coins are never free, and their mean is not r."""
        random = torch.Generator().manual_seed(0)
        for r, mean in ((0.5, 0.5), (0.7, 0.638)):
            score = torch.full((200_000,), math.log(r / (1 - r)), dtype=torch.double)
            alpha = parts.concrete(score, 1.0, random)
            assert parts.bernoulli_kl(alpha, r).mean().item() == pytest.approx(0.193, abs=2e-3)
            assert alpha.mean().item() == pytest.approx(mean, abs=2e-3)

    def test_cold_coins_are_hard_and_fair(self):
        score = torch.full((20_000,), math.log(0.3 / 0.7))
        alpha = parts.concrete(score, 1e-3, torch.Generator().manual_seed(0))
        assert ((alpha < 0.01) | (alpha > 0.99)).float().mean().item() > 0.995
        assert alpha.mean().item() == pytest.approx(0.3, abs=3 * math.sqrt(0.21 / 20_000))
        assert alpha.isfinite().all()

    @pytest.mark.parametrize("over", ["edge", "node"])
    def test_instance_norm_equals_torch_graph_by_graph(self, over):
        batch = odd_batch()
        rows = batch.num_edges if over == "edge" else batch.num_nodes
        values = torch.randn(rows, 4, dtype=torch.double)
        found = parts.instance_norm(values, batch, over)
        for place in graph_rows(batch, over):
            if len(place) > 1:
                expected = functional.instance_norm(values[place].T[None])[0].T
                assert torch.allclose(found[place], expected)
            else:
                assert (found[place] == 0).all()
        padded = odd_batch("padded")
        more = padded.num_edges if over == "edge" else padded.num_nodes
        filled = torch.cat([values, torch.randn(more - rows, 4, dtype=torch.double)])
        assert torch.allclose(parts.instance_norm(filled, padded, over)[:rows], found)

    def test_a_graph_with_a_single_edge(self):
        graphs = PackedGraphs.from_data_list(odd_graphs()[3:4])
        batch = doubled(whole(graphs))
        one = batch.replace(
            edge_index=batch.edge_index[:, 3:],
            edge_batch=batch.edge_batch[3:],
            reverse=torch.zeros(1, dtype=torch.long),
            edge_count=torch.ones(1, dtype=torch.long),
        )
        assert (parts.instance_norm(torch.randn(1, 4), one, "edge") == 0).all()
        assert all(term.isfinite() for term in built("gsat").loss(one, Progress()).values())

    @pytest.mark.parametrize("over", ["edge", "node"])
    def test_scores_equal_a_loop(self, over):
        batch, net = odd_batch(), parts.AttentionScore(8, over, 0.0).double()
        wide = 16 if over == "edge" else 8
        assert [tuple(p.shape) for p in net.parameters()] == [(2 * wide, wide), (8, 2 * wide), (1, 8), (1,)]
        h = torch.randn(batch.num_nodes, 8, dtype=torch.double)
        found = net(h, batch)
        rows = h if over == "node" else torch.stack([torch.cat([h[u], h[v]]) for u, v in batch.edge_index.T.tolist()])
        for place in graph_rows(batch, over):
            if len(place) > 1:
                hidden = functional.instance_norm(net.first(rows[place]).T[None])[0].T.relu()
                hidden = functional.instance_norm(net.second(hidden).T[None])[0].T.relu()
                assert torch.allclose(found[place], net.last(hidden)[:, 0])

    def test_weights_are_symmetric_unless_told_otherwise(self, motif):
        batch = next(iter(Batches(motif.graphs, motif["train"][:20], 20)))
        alpha = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(0))
        method = built("gsat")
        weight = method.weigh(alpha, batch).edge
        assert torch.equal(weight, weight[batch.reverse])
        pairs = {pair: place for place, pair in enumerate(map(tuple, batch.edge_index.T.tolist()))}
        for (u, v), place in pairs.items():
            assert weight[place].item() == pytest.approx((alpha[place] + alpha[pairs[v, u]]).item() / 2)
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


@pytest.mark.parametrize("name", ["cal", "gsat"])
def test_every_backbone_serves_and_every_setting_is_explained(name):
    batch = odd_batch()
    for kind in ("gin", "gcn", "gcnii", "gat"):
        settings = BackboneSettings(kind=kind, width=8, heads=2, layers=2, virtual_node=kind == "gin")
        terms = built(name, backbone=settings).loss(batch, Progress())
        assert all(term.isfinite() for term in terms.values())
    assert all(meaning for _, _, meaning in describe(find_method(name).Settings()))


@pytest.mark.parametrize("name", ["cal", "gsat"])
def test_a_graph_without_edges_changes_no_other_prediction(name):
    method = built(name).eval()
    graphs = PackedGraphs.from_data_list(odd_graphs())
    few, more = (doubled(whole(graphs.select(torch.tensor(chosen)))) for chosen in ([0, 3, 4], [0, 3, 4, 2]))
    assert torch.allclose(method(few), method(more)[:3])


@pytest.mark.parametrize("name", ["cal", "gsat"])
def test_masks_of_every_kind_of_graph(name, any_set):
    schema, graphs = any_set
    for layout in ("exact", "padded"):
        batch = doubled(whole(graphs, layout))
        stable = built(name, schema).eval().masks(batch)["stable"]
        assert stable.node.shape == (batch.num_nodes,)
        assert stable.edge.shape == (batch.num_edges,)


@pytest.mark.usefixtures("steady_draws")
@pytest.mark.parametrize("name", ["cal", "gsat"])
def test_regression_with_unknown_labels_ignores_padding(name):
    schema = dataclasses.replace(REAL, task=Task("regression", 1, "rmse"))
    results = []
    for layout in ("exact", "padded"):
        batch = odd_batch(layout)
        y = batch.y[:, None].double()
        y[1] = float("nan")
        method = built(name, schema, **({"dropout": 0} if name == "gsat" else {}))
        terms = method.loss(batch.replace(y=y), Progress())
        sum(terms.values()).backward()
        results.append([*terms.values(), *(p.grad for p in method.parameters() if p.grad is not None)])
    for one, other in zip(*results, strict=True):
        assert one.isfinite().all()
        assert torch.allclose(one, other, atol=1e-9)
