import dataclasses
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from outland.methods import Progress, leci
from outland.methods.parts.bernoulli import relaxed
from outland.training import Trainer
from tests.cases import FRAME, MethodCase, doubled
from tests.conftest import whole
from tests.methods.cases import built, gradients, numbers, odd_batch

START = Progress(epoch=0, epochs=10**9)  # where the adversaries do not pull yet
FILTERED = {"features": 1.0, "divergence": 1.0}


def steady_coins(score, temperature, random):
    return ((score + torch.arange(len(score)).to(score) % 5 - 2) / temperature).sigmoid()


@pytest.fixture
def steady_draws(monkeypatch):
    """Coins fall the same in every layout and step."""
    monkeypatch.setattr("outland.methods.leci.concrete", steady_coins)


class TestLECI(MethodCase):
    name = "leci"
    rounding_only = {"selector.norms.2.bias"}
    zero = {"label": 0, "environment": 0, "features": 0, "divergence": 0, "dropout": 0}
    still = {"dropout": 0}

    def zero_strength(self, method):
        """Every edge has weight 1."""
        nn.init.zeros_(method.score.last.weight)
        nn.init.constant_(method.score.last.bias, 100.0)

    @pytest.mark.usefixtures("steady_draws")
    @pytest.mark.parametrize("changes", [{}, {**FILTERED, "norm": "instance"}], ids=["plain", "filtered"])
    def test_padding_changes_neither_losses_nor_gradients(self, any_set, changes, monkeypatch):
        monkeypatch.setattr(type(self), "still", {"dropout": 0, **changes})
        super().test_padding_changes_neither_losses_nor_gradients(any_set)

    @pytest.mark.parametrize("changes", [FILTERED, {"norm": "instance"}, {"symmetric": False}], ids=str)
    def test_every_option_trains(self, any_set, changes):
        schema, graphs = any_set
        _, stepper = self.ready(schema, graphs, backbone={"virtual_node": True}, **changes)
        batch = doubled(whole(graphs, "padded"))
        for epoch in (0, 9):
            terms = stepper.step(batch, Progress(epoch=epoch, epochs=10))
            assert all(term.isfinite() for term in terms.values())
        assert ("risk.filter" in terms) == ("risk.divergence" in terms) == (changes == FILTERED)

    @pytest.mark.usefixtures("steady_draws")
    def test_at_the_start_the_selector_follows_the_risk_alone(self):
        method, batch = built("leci", dropout=0), odd_batch()
        terms = method.loss(batch, START)
        for module in (method.selector, method.score):
            for ours, alone in zip(
                gradients(sum(terms.values()), module), gradients(terms["risk"], module), strict=True
            ):
                assert torch.allclose(ours, alone, atol=1e-6)

    @pytest.mark.usefixtures("steady_draws")
    def test_adversaries_descend_and_the_selector_ascends_their_losses(self):
        method, batch = built("leci", label=3.0, environment=0.5, dropout=0), odd_batch()
        late = Progress(epoch=4, epochs=10)
        rho = math.tanh(5 * 0.45)
        reversed_terms = method.loss(batch, late)
        plain = built("leci", label=3.0, environment=0.5, dropout=0)
        plain.reverse = lambda values, strength, progress: values
        for name, strength in (("label_adversary", 3.0), ("environment_adversary", 0.5)):
            straight = plain.loss(batch, late)[name]
            assert straight.item() == pytest.approx(reversed_terms[name].item(), abs=1e-12)
            for ours, theirs in zip(
                gradients(reversed_terms[name], getattr(method, name)), gradients(straight, getattr(plain, name)),
                strict=True,
            ):  # fmt: skip
                assert torch.allclose(ours, theirs, atol=1e-9)
            moved = 0
            for ours, theirs in zip(
                gradients(reversed_terms[name], method.score), gradients(straight, plain.score), strict=True
            ):
                assert torch.allclose(ours, -strength * rho * theirs, atol=1e-9)
                moved += bool((theirs.abs() > 1e-9).any())
            assert moved

    @pytest.mark.usefixtures("steady_draws")
    def test_renaming_environments_leaves_the_risk_alone(self):
        method, batch = built("leci", dropout=0), odd_batch()
        other = batch.replace(environment=1 - batch.environment)
        first, second = method.loss(batch, START), method.loss(other, START)
        assert torch.allclose(first["risk"], second["risk"], atol=1e-12)
        assert not torch.allclose(first["environment_adversary"], second["environment_adversary"])

    def test_weights_are_symmetric_and_inference_draws_nothing(self):
        method, batch = built("leci").eval(), odd_batch()
        assert torch.equal(method(batch), method(batch))
        mask = method.masks(batch)["stable"]
        assert torch.equal(mask.edge, mask.edge[batch.reverse])
        assert (mask.node == 1).all()

    def test_predictions_do_not_depend_on_adversaries(self):
        method, bare, batch = built("leci").eval(), built("leci", label=0, environment=0).eval(), odd_batch()
        assert bare.label_adversary is bare.environment_adversary is None
        shared = {name: value for name, value in method.state_dict().items() if name in bare.state_dict()}
        bare.load_state_dict(shared)
        assert torch.equal(method(batch), bare(batch))
        counts = method.parameter_counts()
        assert counts["inference"] == bare.parameter_counts()["total"]

    def test_first_epochs_are_not_selected(self, any_splits):
        run = Trainer(built("leci", any_splits.schema).float(), any_splits, dataclasses.replace(FRAME, epochs=8), 0)
        assert run.rule.burn_in == 2


def test_golden_game():
    """H26 to H28: three losses of two edge weights, and the gradient of the game."""
    a = numbers(0.8, 0.3).requires_grad_()
    scores = {
        "label": lambda a: 2 * a[0] - a[1],
        "rest": lambda a: (1 - a[0]) + 3 * (1 - a[1]),
        "environment": lambda a: a[0] + a[1],
    }
    losses = [functional.softplus(-score(a)) for score in scores.values()]
    assert [loss.item() for loss in losses] == pytest.approx([0.241008, 0.095545, 0.287335], abs=1e-6)
    plain = torch.stack([torch.autograd.grad(loss, a, retain_graph=True)[0] for loss in losses])
    expected = [-0.428330, 0.214165, 0.091123, 0.273369, -0.249740, -0.249740]
    assert plain.flatten().tolist() == pytest.approx(expected, abs=1e-6)
    method = built("leci")
    now = Progress(epoch=0, epochs=5)  # whose middle is t = 0.1
    assert leci.ramp(now) == pytest.approx(0.462117, abs=1e-6)
    total = functional.softplus(-scores["label"](a))
    total = total + functional.softplus(-scores["rest"](method.reverse(a, 10.0, now)))
    total = total + functional.softplus(-scores["environment"](method.reverse(a, 5.0, now)))
    (grad,) = torch.autograd.grad(total, a)
    assert grad.tolist() == pytest.approx([-0.272379, -0.472074], abs=1e-6)


def test_golden_schedules():
    """H29 and H30."""
    settings = leci.LECISettings(first_temperature=10.0, last_temperature=0.1, interval=60)
    epochs = [Progress(epoch=epoch, epochs=200) for epoch in (0, 50, 100, 199)]
    assert [settings.temperature(now) for now in epochs] == pytest.approx([10, 7.525, 5.05, 0.1495])
    falling = [settings.r(Progress(epoch=epoch, epochs=200)) for epoch in (0, 59, 60, 120, 180, 199)]
    assert falling == pytest.approx([0.9, 0.9, 0.8, 0.7, 0.6, 0.6])


def test_golden_weights_and_divergence():
    """H29b and H31."""
    draws = [relaxed(numbers(1.0), numbers(0.3), T).item() for T in (10, 7.525, 1, 0.1495)]
    assert draws == pytest.approx([0.503817, 0.505073, 0.538102, 0.735249], abs=1e-6)
    assert numbers(1.0).sigmoid().item() == pytest.approx(0.731059, abs=1e-6)
    alpha = numbers(0.2, 0.5, 0.9)
    for r, expected in ((0.8, 0.363869), (0.5, 0.186936)):
        assert leci.bernoulli_kl(alpha, r).mean().item() == pytest.approx(expected, abs=1e-6)


def test_edge_scores_are_batch_normed_over_real_edges():
    net = leci.EdgeScore(4, 0.0).double()
    exact, padded = odd_batch(), odd_batch("padded")
    h = torch.randn(padded.num_nodes, 4, dtype=torch.double)
    ends = torch.cat([h[exact.edge_index[0]], h[exact.edge_index[1]]], 1)
    first = functional.linear(ends, net.first.weight, net.first.bias)
    hidden = ((first - first.mean(0)) / (first.var(0, correction=0) + 1e-5).sqrt()).relu()
    second = net.second(hidden)
    hidden = ((second - second.mean(0)) / (second.var(0, correction=0) + 1e-5).sqrt()).relu()
    expected = net.last(hidden).squeeze(1)
    assert torch.allclose(net(h[: exact.num_nodes], exact), expected, atol=1e-9)
    assert torch.allclose(net(h, padded)[: exact.num_edges], expected, atol=1e-9)
