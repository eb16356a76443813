import math

import pytest
import torch

from outland.methods.parts import dependence as module
from outland.methods.parts.dependence import FourierDependence, FourierSettings, HSICDependence
from outland.methods.parts.independence import gaussian_kernels, hsic
from outland.methods.parts.weighting import SampleWeighter, WeightingSettings, scaled_dependence
from outland.ops import simplex, use_kernels
from tests.methods.cases import correlated, frozen, seeded, uniform
from tests.ops.cases import needs_triton

VALID = torch.tensor([True, True, False] * 4)


def through_softmax(gradient, weights):
    """The gradient by logits of the weights."""
    return weights * (gradient - weights @ gradient)


def same_slope(dependence, rows, valid, steps=2):
    """The largest gradient by logits, once the closed form is that of autograd."""
    largest = 0.0
    for step in range(steps):
        logits = torch.randn(rows, generator=seeded(step), dtype=torch.double, requires_grad=True)
        weights = simplex(logits, valid)
        (expected,) = torch.autograd.grad(dependence.value(step, weights), logits)
        weights = weights.detach()
        actual = through_softmax(dependence.gradient(step, weights), weights)
        assert torch.allclose(actual, expected, atol=1e-10, rtol=1e-10)
        largest = max(largest, expected.abs().max().item())
    return largest


def autograd_descent(weighter, logits, valid, dependence):
    """The inner steps as they are written: autograd of the objective, and SGD with momentum."""
    settings, logits = weighter.settings, logits.clone().requires_grad_()
    optimizer = torch.optim.SGD([logits], momentum=settings.inner_momentum)
    for step in range(settings.inner_steps):
        late = 2 * step >= settings.inner_steps
        optimizer.param_groups[0]["lr"] = settings.inner_lr * (0.1 if late else 1)
        weights = simplex(torch.cat([logits, weighter.logits]), valid)
        penalty = simplex(logits, valid[: len(logits)]).square().sum()
        optimizer.zero_grad()
        (dependence.value(step, weights) / settings.lambda_p + penalty).backward()
        optimizer.step()
    return logits.detach()


class TestFourier:
    @pytest.mark.parametrize("features", ["standardised", "raw", "normalised"])
    @pytest.mark.parametrize("frequencies", [1, 3])
    @pytest.mark.parametrize("pairs", ["same", "all"])
    def test_gradient_is_that_of_the_definition(self, features, frequencies, pairs):
        settings = FourierSettings(features, frequencies, pairs, 1.7)
        assert same_slope(FourierDependence(correlated(12, 5), VALID, seeded(), 2, settings), 12, VALID) > 1e-6

    def test_one_coordinate_has_no_dependence(self):
        dependence = FourierDependence(correlated(12, 1), VALID, seeded(), 2, FourierSettings(frequencies=2))
        assert same_slope(dependence, 12, VALID) < 1e-12

    def test_steps_have_waves_of_their_own_and_a_seed_gives_the_same(self):
        first, same = (FourierDependence(correlated(12, 5), VALID, seeded(), 2, FourierSettings()) for _ in range(2))
        assert torch.equal(first.waves(0, 2), same.waves(0, 2))
        fewer = FourierDependence(correlated(12, 5), VALID, seeded(), 1, FourierSettings())
        assert torch.equal(first.waves(0, 1), fewer.waves(0, 1))
        assert not torch.allclose(first.waves(0, 1), first.waves(1, 1))
        one = FourierDependence(correlated(12, 5), VALID, seeded(), 2, FourierSettings("normalised"))
        assert one.frequency.shape == (2, 1, 1, 1)
        assert one.phase.shape == first.frequency.shape == (2, 1, 1, 5)
        assert 0 <= one.phase.min() < one.phase.max() <= 2 * math.pi

    @pytest.mark.parametrize("together", [1, 3, 7])
    def test_tables_are_the_same_however_many_are_prepared_together(self, together, monkeypatch):
        monkeypatch.setattr(module, "_ENTRIES", together * 12 * (2 * 12 + 2 * 5))
        apart = FourierDependence(correlated(12, 5), VALID, seeded(), 7, FourierSettings())
        assert apart.together == together
        monkeypatch.undo()
        whole = FourierDependence(correlated(12, 5), VALID, seeded(), 7, FourierSettings())
        assert whole.together > 7
        for step in (0, 1, 2, 3, 4, 5, 6, 0):
            assert torch.allclose(apart.table(step), whole.table(step), atol=1e-14)

    def test_price_grows_with_the_square_of_the_width(self):
        z, valid = correlated(10, 6), torch.ones(10).bool()
        plain = frozen(scale="none")(z, valid).value(0, uniform(10))
        assert frozen()(z, valid).value(0, uniform(10)).item() == pytest.approx(plain.item() * 50**2)


class TestHSIC:
    @pytest.mark.parametrize("bandwidth", ["one", "median"])
    @pytest.mark.parametrize("blocks", [1, 2, 5])
    def test_gradient_is_that_of_the_definition(self, blocks, bandwidth):
        largest = same_slope(HSICDependence(correlated(12, 10), VALID, blocks, bandwidth), 12, VALID)
        assert largest > 1e-3 if blocks > 1 else largest == 0

    def test_it_is_the_sum_over_pairs(self):
        z, valid = correlated(12, 6), torch.ones(12).bool()
        actual = HSICDependence(z, valid, 3, "median").value(0, uniform(12))
        blocks = z.unflatten(1, (3, 2)).transpose(0, 1)
        each = hsic(gaussian_kernels(blocks, valid, "median"), uniform(12), torch.tensor(12))
        assert actual.item() == pytest.approx(1e3 * (each[0, 1] + each[0, 2] + each[1, 2]).item())


class TestDescent:
    def ready(self, batch, width, dtype=torch.float32, **changes):
        """A weighter with a memory, rows of which a few are padding or not yet written, and their dependence."""
        settings = WeightingSettings(**changes)
        weighter = SampleWeighter(width, settings).to(dtype)
        rows, random = batch + settings.memory, seeded()
        weighter.logits += 0.3 * torch.randn(settings.memory, generator=random)
        z = torch.randn(rows, 8, generator=random) @ torch.randn(8, width, generator=random) / 8**0.5
        z = (z + 0.5 * torch.randn(rows, width, generator=random)).to(dtype)
        valid = torch.ones(rows).bool()
        valid[batch - 2 : batch + 3] = False
        return weighter, valid, scaled_dependence(z, valid, seeded(1), settings)

    @pytest.mark.parametrize(("batch", "width"), [(32, 300), (32, 2100), (512, 64)])
    def test_inner_steps_are_those_of_autograd(self, batch, width):
        weighter, valid, dependence = self.ready(batch, width)
        actual = weighter.descend(torch.ones(batch), valid, dependence)
        expected = autograd_descent(weighter, torch.ones(batch), valid, dependence)
        assert (actual - expected).abs().max() <= 1e-6 * expected.abs().max()
        assert 0.1 < expected.std() < 2

    @pytest.mark.parametrize(
        "changes",
        [
            {"pairs": "all", "frequencies": 2},
            {"features": "normalised", "frequencies": 2},
            {"features": "raw", "memory": 0},
            {"inner_steps": 7, "inner_momentum": 0.0},
        ],
    )
    def test_and_in_double_far_closer(self, changes):
        weighter, valid, dependence = self.ready(12, 9, torch.double, **changes)
        actual = weighter.descend(torch.ones(12).double(), valid, dependence)
        expected = autograd_descent(weighter, torch.ones(12).double(), valid, dependence)
        assert torch.allclose(actual, expected, atol=1e-12, rtol=1e-12)
        assert (expected - 1).abs().max() > 1e-4

    @needs_triton
    @pytest.mark.skipif(torch.cuda.is_available(), reason="pretends that a CPU is a GPU")
    @pytest.mark.parametrize("changes", [{}, {"pairs": "all", "frequencies": 2}])
    def test_through_the_kernels_they_are_the_same(self, changes):
        found = []
        for enabled in (False, True):
            weighter, valid, dependence = self.ready(32, 64, **changes)
            with use_kernels(enabled):
                found.append(weighter.descend(torch.ones(32), valid, dependence))
        assert torch.allclose(*found, atol=2e-6)
