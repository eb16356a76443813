import pytest
import torch

from outland.graphs import Batches, PackedGraphs, Task
from outland.methods import Progress
from outland.methods.irm import scale_grads
from outland.methods.parts.environments import environment_means
from outland.methods.parts.risk import label_losses
from tests.cases import MethodCase, doubled
from tests.conftest import REAL, odd_graphs, whole
from tests.methods.cases import CLASSES, LOGITS, assert_same_grads, built, toy


class TestIRM(MethodCase):
    name = "irm"
    zero = {"penalty": 0}

    def test_golden(self):
        method = built("irm")
        grads = scale_grads(LOGITS, toy(), CLASSES)
        g, _ = environment_means(grads, torch.ones(4, 1).bool(), torch.tensor([0, 0, 1, 1]), 2)
        assert g.tolist() == pytest.approx([0.1176443583, -0.4247896174], abs=1e-9)
        assert method.penalty(LOGITS, toy()).item() == pytest.approx(0.0971432070, abs=1e-9)
        assert built("irm", estimator="halves").penalty(LOGITS, toy()).item() == pytest.approx(-0.0499741019, abs=1e-9)

    def test_golden_binary(self):
        batch = toy(y=((1.0,), (1.0,)), environment=(0, 0))
        grads = scale_grads(torch.tensor([[2.0], [-1.0]], dtype=torch.double), batch, Task("binary", 1, "rocauc"))
        assert grads.mean().item() == pytest.approx(0.2463263673, abs=1e-9)

    @pytest.mark.parametrize("kind", ["multiclass", "binary", "regression"])
    def test_closed_form_equals_autograd(self, kind):
        task = Task(kind, 3, "accuracy")
        y = torch.tensor([0, 1, 0, 2]) if kind == "multiclass" else torch.randint(0, 2, (4, 3)).double()
        batch = toy(y=y.tolist())
        scale = torch.ones((), dtype=torch.double, requires_grad=True)
        losses, _ = label_losses(LOGITS * scale, batch, task)
        (expected,) = torch.autograd.grad(losses.sum(), scale)
        assert scale_grads(LOGITS, batch, task).sum().item() == pytest.approx(expected.item(), abs=1e-9)

    def test_repeating_an_environment_changes_nothing_and_resting_logits_cost_nothing(self):
        method = built("irm")
        twice = toy(y=(0, 1, 0, 2, 0, 1), environment=(0, 0, 1, 1, 0, 0))
        assert method.penalty(torch.cat([LOGITS, LOGITS[:2]]), twice).item() == pytest.approx(0.0971432070, abs=1e-9)
        assert method.penalty(torch.zeros(4, 3).double(), toy()).item() == 0

    def test_class_frequencies_are_a_resting_point(self):
        y = (0, 0, 1, 2)
        logits = torch.tensor([2.0, 1.0, 1.0]).log().expand(4, 3).double()
        assert built("irm").penalty(logits, toy(y=y, environment=(0, 0, 0, 0))).item() == pytest.approx(0, abs=1e-15)

    @pytest.mark.parametrize("estimator", ["square", "halves"])
    def test_the_loss_has_the_gradient_of_its_equation(self, any_set, estimator):
        """By a second backward pass, which the closed form saves."""
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, penalty=3.0, estimator=estimator)
        batch = doubled(whole(graphs))
        logits = method.classifier(batch)
        grads = []
        for environment in (0, 1):
            members = (batch.environment == environment).nonzero().flatten()
            parts = [members] if estimator == "square" else [members[::2], members[1::2]]
            pair = []
            for part in parts:
                scale = torch.ones((), dtype=torch.double, requires_grad=True)
                losses, known = label_losses(logits * scale, batch, schema.task)
                risk = losses[part].sum() / known[part].sum()
                pair.append(torch.autograd.grad(risk, scale, create_graph=True)[0])
            grads.append(pair[0] * pair[-1])
        expected = 3.0 * torch.stack(grads).mean()
        actual = method.loss(batch, Progress())["penalty"]
        assert actual.item() == pytest.approx(expected.item(), abs=1e-12)
        assert_same_grads(actual, expected, method)

    def test_halves_do_not_mind_padding_with_a_foreign_environment(self):
        graphs = PackedGraphs.from_data_list(odd_graphs())
        graphs.environment[0] = 6  # a graph of a later part, which padding repeats
        method = self.build(REAL, estimator="halves")
        index = torch.tensor([1, 2, 3, 4, 5])
        values = [
            method.loss(doubled(next(iter(Batches(graphs, index, size, layout=layout)))), Progress())["penalty"].item()
            for size, layout in ((5, "exact"), (8, "padded"))
        ]
        assert values[0] == pytest.approx(values[1], abs=1e-12)

    def test_warm_up_holds_the_weight_at_one(self):
        method = built("irm", penalty=100.0, warm_up=10)
        batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
        early = method.loss(batch, Progress(step=9))["penalty"]
        late = method.loss(batch, Progress(step=10))["penalty"]
        assert (late / early).item() == pytest.approx(100)
