import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from outland.graphs import Task
from outland.methods import Progress, build_method, method_settings
from outland.methods.cal import uniform_divergence
from outland.nn import BackboneSettings, Mask
from outland.training.stepper import Stepper
from tests.cases import FRAME, SMALL, doubled
from tests.conftest import whole
from tests.methods.cases import CLASSES, built, odd_batch
from tests.methods.families import AttentionCase


def plain_norm(layer, x):
    """Batch norm in training mode by PyTorch's own function."""
    return functional.batch_norm(x, None, None, layer.weight, layer.bias, training=True, eps=layer.eps)


def plain_branch(branch, h, mask, batch):
    """A branch with a loop over edges and one over graphs."""
    x = plain_norm(branch.norm, h * mask.node[:, None])
    degree = [torch.ones((), dtype=h.dtype) for _ in range(len(x))]
    for index, target in enumerate(batch.edge_index[1].tolist()):
        degree[target] = degree[target] + mask.edge[index]
    aggregated = [x[i] / degree[i] for i in range(len(x))]
    for index, (source, target) in enumerate(batch.edge_index.T.tolist()):
        scale = (degree[source] * degree[target]).sqrt()
        aggregated[target] = aggregated[target] + mask.edge[index] * x[source] / scale
    z = functional.linear(torch.stack(aggregated), branch.conv.linear.weight, branch.conv.linear.bias).relu()
    pooled = [z[batch.node_batch == g] for g in range(batch.num_graphs)]
    return torch.stack([rows.mean(0) if branch.readout.pool_name == "mean" else rows.sum(0) for rows in pooled])


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


def steady_pairs(batch, random):
    """Each graph gets the next one's trivial part."""
    real = batch.num_graphs if batch.graph_mask is None else int(batch.graph_mask.sum())
    return torch.tensor([*range(1, real), 0, *range(real, batch.num_graphs)])


@pytest.fixture
def steady_draws(monkeypatch):
    """Pairs are the same in every layout and step."""
    monkeypatch.setattr("outland.methods.cal.permutation", steady_pairs)


class TestCAL(AttentionCase):
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
        actual = dict(method.named_parameters())
        compared = 0
        for name, parameter in erm.classifier.named_parameters():
            assert (actual[name].grad is None) == (parameter.grad is None), name
            if parameter.grad is not None:
                assert torch.allclose(actual[name].grad, parameter.grad, atol=1e-9), name
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
        actual = self.build(schema, uniform=0.7).loss(batch, Progress())["uniform"]
        fresh = self.build(schema, uniform=0.7)
        _, trivial = fresh.split(batch)
        expected = uniform_divergence(fresh.trivial_head(trivial, batch), batch, schema.task).mean()
        assert actual.item() == pytest.approx(0.7 * expected.item(), abs=1e-12)

    def test_the_share_of_the_causal_part_is_told(self, any_set):
        schema, graphs = any_set
        for layout in ("exact", "padded"):
            method, batch = self.build(schema), doubled(whole(graphs, layout))
            method.loss(batch, Progress())
            _, causal = method.attention(self.build(schema).encoder(batch), batch)
            expected = causal.node[batch.real_nodes].mean().item()
            assert method.diagnostics()["stable_share"].item() == pytest.approx(expected, abs=1e-12)

    def test_golden(self):
        logits = torch.tensor([[1, 0, -1]], dtype=torch.double)
        batch = odd_batch()
        assert uniform_divergence(logits, batch, CLASSES).item() == pytest.approx(0.3089936758, abs=1e-9)
        binary = uniform_divergence(torch.ones(1, 1).double(), batch, Task("binary", 1, "rocauc"))
        assert binary.item() == pytest.approx(0.1201145070, abs=1e-9)

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
        assert built("cal").causal.readout.pool_name == "mean"
        assert built("cal", pool="sum").trivial.readout.pool_name == "sum"

    def test_attention_equals_a_loop_and_sums_to_one(self):
        method, batch = built("cal").attention, odd_batch()
        h = torch.randn(batch.num_nodes, 8, dtype=torch.double)
        trivial, causal = method(h, batch)
        assert torch.allclose(trivial.node + causal.node, torch.ones(batch.num_nodes).double())
        assert torch.allclose(trivial.edge + causal.edge, torch.ones(batch.num_edges).double())
        for index, (u, v) in enumerate(batch.edge_index.T.tolist()):
            pair = method.edge(torch.cat([h[u], h[v]])).softmax(0)
            assert torch.allclose(pair, torch.stack([trivial.edge[index], causal.edge[index]]))
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
