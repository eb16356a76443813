import pytest
import torch

from outland.methods import Progress
from tests.cases import MethodCase, doubled
from tests.conftest import whole


class TestFLAG(MethodCase):
    name = "flag"
    zero = {"size": 0}
    one_pass = False

    def test_every_ascent_goes_up_the_loss(self, any_set, monkeypatch):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, size=1e-3, ascents=4)
        batch = doubled(whole(graphs))
        forward, seen = type(method.classifier).forward, []

        def spy(net, batch, mask=None, states=None):
            seen.append(states.detach())
            return forward(net, batch, mask, states)

        monkeypatch.setattr(type(method.classifier), "forward", spy)
        stepper.backward(stepper.optimizers[0], batch, Progress())
        monkeypatch.undo()
        assert len(seen) == 4
        risks = []
        for states, following in zip(seen, [*seen[1:], None], strict=True):
            point = states.clone().requires_grad_()
            risk = method.risk(method.classifier(batch, states=point), batch)
            risks.append(risk.item())
            (grad,) = torch.autograd.grad(risk, point)
            clear = grad.abs() > 1e-9  # rounding decides the sign of the others
            if following is not None:
                assert clear.float().mean() > 0.5
                assert torch.allclose((following - states)[clear], 1e-3 * grad.sign()[clear], atol=1e-12)
        assert risks == sorted(risks)

    def test_noise_grows_by_its_size_each_ascent(self, any_set, monkeypatch):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, size=0.1, ascents=3)
        batch = doubled(whole(graphs))
        clean, seen = method.classifier.encoder.embed(batch), []
        forward = type(method.classifier).forward

        def spy(net, batch, mask=None, states=None):
            seen.append((states - clean).detach().abs().max().item())
            return forward(net, batch, mask, states)

        monkeypatch.setattr(type(method.classifier), "forward", spy)
        stepper.backward(stepper.optimizers[0], batch, Progress())
        assert len(seen) == 3
        assert all(size <= (t + 1) * 0.1 + 1e-9 for t, size in enumerate(seen))
        assert seen[2] > 0.15

    def test_one_ascent_is_erm_on_uniform_noise(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, size=0.1, ascents=1)
        batch = doubled(whole(graphs))
        method.eval()
        risk = method.loss(batch, Progress())["risk"]
        method.reseed(0, torch.device("cpu"))
        x = method.classifier.encoder.embed(batch)
        noise = torch.rand(x.shape, generator=method.random, dtype=torch.double)
        expected = method.risk(method.classifier(batch, states=x + 0.1 * (2 * noise - 1)), batch)
        assert risk.item() == pytest.approx(expected.item(), abs=1e-12)
