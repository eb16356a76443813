import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from outland.methods import Progress, method_settings, prune
from outland.nn import Mask
from outland.training import Trainer
from outland.training.outcome import selections
from tests.cases import FRAME, SMALL, MethodCase, doubled
from tests.conftest import whole
from tests.methods.cases import LATE, built, numbers, odd_batch


def edges_of(*sizes):
    """A stand-in for a batch of graphs with so many directed edges, and two of padding."""
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    edge_batch = torch.cat([batch, torch.full((2,), len(sizes))])
    return SimpleNamespace(edge_batch=edge_batch, num_graphs=len(sizes), real_edges=edge_batch < len(sizes))


def steady_noise(method, score, batch):
    return (torch.arange(len(score)).to(score) % 5 - 2) / 3


class TestPrunE(MethodCase):
    name = "prune"
    zero = {"size": 0, "alignment": 0}

    def build(self, schema, seed=0, **changes):
        """As in the epochs after the warm-up."""
        return super().build(schema, seed, **{"warm_up": 0, **changes})

    def reference_backbone(self, method):
        return dataclasses.replace(SMALL, pool="sum", unit_readout=True)

    def zero_strength(self, method):
        """Every edge is kept."""
        nn.init.zeros_(method.selector.last.weight)
        nn.init.constant_(method.selector.last.bias, 100.0)

    def test_padding_changes_neither_losses_nor_gradients(self, any_set, monkeypatch):
        monkeypatch.setattr("outland.methods.prune.PrunE.noise", steady_noise)
        super().test_padding_changes_neither_losses_nor_gradients(any_set)

    def test_one_step_lowers_the_loss(self, motif, monkeypatch):
        """On the edges that were kept before it: others make another loss."""
        draw, held = prune.straight_through, {}

        def hold(score, noise, temperature):
            weight = draw(score, noise, temperature)
            kept = held.setdefault("kept", weight.detach())
            return weight - weight.detach() + kept

        monkeypatch.setattr("outland.methods.prune.straight_through", hold)
        graphs = motif.graphs.select(motif["train"][:8])
        lowered = 0
        for seed in range(20):
            held.clear()
            _, stepper = self.ready(motif.schema, graphs, seed=seed, lr=1e-4, alignment=0)
            first = stepper.backward(stepper.optimizers[0], doubled(whole(graphs)), Progress())
            stepper.optimizers[0].adam.step()
            second = stepper.backward(stepper.optimizers[0], doubled(whole(graphs)), Progress())
            lowered += bool(second["risk"] < first["risk"])
        assert lowered >= self.lowers

    def test_the_selector_has_no_gradient_before_the_warm_up_ends(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, warm_up=0.1)
        batch, optimizer = doubled(whole(graphs)), stepper.optimizers[0]
        for epoch, is_moved in ((0, False), (9, False), (10, True), (99, True)):
            stepper.backward(optimizer, batch, Progress(epoch=epoch, epochs=100))
            moved = any((parameter.grad != 0).any() for parameter in method.selector.parameters())
            assert moved == is_moved
            assert method.is_pruning.item() == is_moved

    def test_predictions_of_the_warm_up_are_those_of_whole_graphs(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, inference="probability").eval(), doubled(whole(graphs))
        assert torch.allclose(method(batch), method.classifier(batch), atol=1e-12)
        method.is_pruning.fill_(True)
        assert not torch.allclose(method(batch), method.classifier(batch))

    @pytest.mark.parametrize("inference", ["threshold", "probability"])
    def test_inference_draws_nothing_and_training_does(self, inference):
        method, batch = built("prune", inference=inference).eval(), odd_batch()
        assert method.loss(batch, LATE)["risk"] != method.loss(batch, LATE)["risk"]
        assert torch.equal(method(batch), method(batch))
        p = method.masks(batch)["stable"].edge
        kept = (p > 0.5).double() if inference == "threshold" else p
        assert torch.allclose(method(batch), method.classifier(batch, Mask.on_edges(kept, batch)), atol=1e-12)

    def test_probabilities_are_symmetric_and_so_are_draws(self):
        method, batch = built("prune"), odd_batch()
        score = method.selector(batch)
        assert torch.equal(score, score[batch.reverse])
        noise = method.noise(score, batch)
        assert torch.equal(noise, noise[batch.reverse])
        own = built("prune", symmetric=False)
        assert not torch.equal(own.noise(score, batch), own.noise(score, batch)[batch.reverse])

    def test_the_share_that_is_kept_comes_to_the_budget(self, motif):
        graphs = motif.graphs.select(motif["train"][:16])
        method, stepper = self.ready(motif.schema, graphs, alignment=0, budget=0.3, lr=0.01)
        nn.init.zeros_(method.classifier.head.linear.weight)  # a risk that does not depend on the edges
        method.classifier.requires_grad_(False)
        batch, shares = doubled(whole(graphs)), []
        for _ in range(60):
            stepper.step(batch, Progress())
            nn.init.zeros_(method.classifier.head.linear.weight)
            shares.append(method.diagnostics()["kept"].item())
        assert sum(shares[-20:]) / 20 == pytest.approx(0.3, abs=0.05)

    def test_epochs_of_the_warm_up_are_not_selected(self, any_splits):
        method = built("prune", any_splits.schema, warm_up=0.5).float()
        run = Trainer(method, any_splits, dataclasses.replace(FRAME, epochs=3), 0)
        assert run.rule.burn_in == 2
        run.fit()
        table = selections(run.curves, any_splits.schema.task, run.rule.burn_in)
        assert table["ood_val+burn_in"]["epoch"] == 2
        assert built("prune").barred_epochs(100) == 10

    def test_released_is_what_the_code_minimises(self):
        settings = method_settings("prune:released", {})
        assert (settings.over, settings.size_form, settings.alignment_form) == ("batch", "lopsided", "sum")
        assert (settings.alignment, settings.symmetric, settings.inference) == (1e-3, False, "threshold")


def test_golden_gates():
    """H19: two logits and two Gumbel draws, here by their differences."""
    score = numbers(0.5 - 0.2, 1 + 1).requires_grad_()
    noise = numbers(-0.1 - 0.3, -0.5 - 0.9)
    soft = ((score + noise) / 0.2).sigmoid()
    assert soft.tolist() == pytest.approx([0.377541, 0.952574], abs=1e-6)
    weight = prune.straight_through(score, noise, 0.2)
    assert weight.tolist() == [0, 1]
    (grad,) = torch.autograd.grad(weight.sum(), score)
    assert grad.tolist() == pytest.approx([1.175019, 0.225883], abs=1e-6)
    assert score.sigmoid().tolist() == pytest.approx([0.574443, 0.880797], abs=1e-6)


def test_an_edge_is_kept_with_its_probability():
    method = built("prune", symmetric=False)
    score = torch.full((40_000,), math.log(0.85 / 0.15), dtype=torch.double)
    kept = prune.straight_through(score, method.noise(score, None), 0.2)
    assert kept.mean().item() == pytest.approx(0.85, abs=4 * math.sqrt(0.85 * 0.15 / 40_000))


@pytest.mark.parametrize(
    ("over", "form", "expected"),
    [("batch", "lopsided", 0.25), ("graph", "lopsided", 0.791667), ("graph", "squared", 0.201389)],
)
def test_golden_sizes(over, form, expected):
    """H20, with padding, whose weights do not count."""
    weight = numbers(1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1)
    assert prune.size_penalty(weight, edges_of(4, 6), 0.75, over, form).item() == pytest.approx(expected, abs=1e-6)


def test_golden_sizes_above_and_below_the_budget():
    """H23."""
    for kept, lopsided in ((9, 0.2), (8, 0.05)):
        weight = torch.cat([torch.ones(kept), torch.zeros(10 - kept), torch.ones(2)]).double()
        for over, form, expected in (("batch", "lopsided", lopsided), ("graph", "squared", 0.0025)):
            actual = prune.size_penalty(weight, edges_of(10), 0.85, over, form).item()
            assert actual == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("over", "form", "expected"), [("batch", "sum", 0.2), ("graph", "mean", 0.25)])
def test_golden_alignments(over, form, expected):
    """H21."""
    p = numbers(0.9, 0.8, 0.7, 0.6, 0.1, 0.2, 0.3, 0.4, 0, 0)
    assert prune.alignment_penalty(p, edges_of(4, 4), 0.5, over, form).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("over", "form", "expected"), [("batch", "sum", 0.225), ("graph", "mean", 0.0875)])
def test_golden_alignments_of_one_graph(over, form, expected):
    """H22."""
    p = numbers(0.9, 0.1, 0.6, 0.3, 0.2, 0.8, 0.05, 0.7, 0, 0)
    assert prune.alignment_penalty(p, edges_of(8), 0.5, over, form).item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("over", ["graph", "batch"])
def test_nothing_to_prune_costs_nothing(over):
    p = numbers(0.9, 0.3, 0.2)
    batch = edges_of(1)
    assert prune.alignment_penalty(p, batch, 0.5, over, "mean").item() == 0
    assert prune.size_penalty(p[1:], edges_of(0), 0.5, over, "squared").item() == 0
