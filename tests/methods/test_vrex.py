import pytest
import torch

from outland.methods import Progress
from outland.methods.parts.risk import label_losses
from tests.cases import MethodCase, doubled
from tests.conftest import whole
from tests.methods.cases import assert_same_grads


class TestVREx(MethodCase):
    name = "vrex"
    zero = {"penalty": 0}

    def test_the_loss_has_the_gradient_of_its_equation(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, penalty=3.0)
        batch = doubled(whole(graphs))
        losses, known = label_losses(method.classifier(batch), batch, schema.task)
        members = [batch.environment == environment for environment in (0, 1)]
        risks = torch.stack([losses[here].sum() / known[here].sum() for here in members])
        actual = method.loss(batch, Progress())["variance"]
        assert actual.item() == pytest.approx(3 * risks.var().item(), abs=1e-12)
        assert_same_grads(actual, 3 * risks.var(), method)
