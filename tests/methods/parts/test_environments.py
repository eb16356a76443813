import pytest
import torch

from outland.methods import Progress
from outland.methods.parts.environments import PenaltySettings, environment_means, variance_over
from outland.methods.parts.risk import label_losses
from tests.methods.cases import CLASSES, LOGITS, toy


def test_golden():
    losses, known = label_losses(LOGITS, toy(), CLASSES)
    risks, present = environment_means(losses, known, torch.tensor([0, 0, 1, 1]), 2)
    assert risks.tolist() == pytest.approx([1.0439378175, 0.4076059644], abs=1e-9)
    assert variance_over(risks, present, True).item() == pytest.approx(0.2024591136, abs=1e-9)
    assert variance_over(risks, present, False).item() == pytest.approx(0.1012295568, abs=1e-9)


def test_variance_scales_with_the_square_and_has_the_right_gradient():
    risks = torch.tensor([0.2, 0.9, 0.4], dtype=torch.double, requires_grad=True)
    present = torch.tensor([True, True, True])
    variance = variance_over(risks, present, True)
    assert variance_over(3 * risks, present, True).item() == pytest.approx(9 * variance.item())
    (grad,) = torch.autograd.grad(variance, risks)
    assert torch.allclose(grad, 2 / 2 * (risks - risks.mean()).detach())


def test_equal_environments_have_no_variance():
    twice = toy(y=(0, 1, 0, 1))
    losses, known = label_losses(torch.cat([LOGITS[:2], LOGITS[:2]]), twice, CLASSES)
    risks, present = environment_means(losses, known, twice.environment, 2)
    assert variance_over(risks, present, True).item() == 0


def test_absent_and_single_environments():
    risks = torch.tensor([0.2, 5.0, 0.4], dtype=torch.double)
    assert variance_over(risks, torch.tensor([True, False, True]), True).item() == pytest.approx(0.02)
    assert variance_over(risks, torch.tensor([False, True, False]), True).item() == 0


def test_warm_up_holds_the_weight_at_one():
    settings = PenaltySettings(penalty=100, warm_up=5)
    assert [settings.weight(Progress(step=step)) for step in (0, 4, 5)] == [1, 1, 100]
    assert PenaltySettings(penalty=0.1, warm_up=5).weight(Progress()) == 0.1
