import torch

from outland.methods import Progress
from outland.methods.parts.risk import label_losses
from tests.cases import doubled
from tests.conftest import whole
from tests.methods.families import WeightedCase


class TestOODGNN(WeightedCase):
    name = "ood-gnn"

    def test_no_gradient_comes_through_the_weights(self, any_set):
        """The gradient is that of the loss with the weights as given numbers."""
        schema, graphs = any_set
        batch = doubled(whole(graphs))
        method, stepper = self.ready(schema, graphs)
        stepper.backward(stepper.optimizers[0], batch, Progress())
        actual = [parameter.grad for parameter in method.parameters()]
        same, _ = self.ready(schema, graphs)
        same.train()
        h = same.classifier.embed(batch)
        weights = torch.tensor(same.weights(h, batch, Progress()).tolist()).double()
        losses, known = label_losses(same.classifier.head(h, batch), batch, schema.task)
        ((weights[:, None] * losses).sum() / (weights[:, None] * known).sum()).backward()
        for first, parameter in zip(actual, same.parameters(), strict=True):
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            assert torch.allclose(first, expected, atol=1e-6)
        assert weights.std() > 0
