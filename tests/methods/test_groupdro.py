import math

import pytest
import torch

from outland.graphs import PackedGraphs
from outland.methods import Progress
from outland.methods.parts.environments import environment_means
from outland.methods.parts.risk import label_losses
from tests.cases import MethodCase, doubled
from tests.conftest import CHEMICAL, chemical_graphs, whole
from tests.methods.cases import CLASSES, LOGITS, all_known, assert_same_grads, built, toy


class TestGroupDRO(MethodCase):
    """With a step of 0 it is the mean of the environments' means; ERM where they are equally large."""

    name = "groupdro"
    zero = {"step": 0}

    def test_zero_strength_is_erm(self, any_set):
        """The six graphs are three and three in two environments; every label must be known for them to weigh alike."""
        super().test_zero_strength_is_erm(all_known(any_set))

    def test_golden(self):
        losses, known = label_losses(LOGITS, toy(), CLASSES)
        risks, present = environment_means(losses, known, torch.tensor([0, 0, 1, 1]), 2)
        for memory, second in (
            ("persistent", [0.7811983895, 0.2188016105, 0.9047073833]),
            ("batch", [0.6539238010, 0.3460761990, 0.8237185085]),
        ):
            method = built("groupdro", step=1.0, memory=memory)
            first = method.weights(risks, present)
            assert [*first.tolist(), (first * risks).sum().item()] == pytest.approx(
                [0.6539238010, 0.3460761990, 0.8237185085], abs=1e-9
            )
            again = method.weights(risks, present)
            assert [*again.tolist(), (again * risks).sum().item()] == pytest.approx(second, abs=1e-9)

    def test_large_steps_leave_the_worst_environment_and_never_overflow(self):
        method = built("groupdro", step=1e4)
        for _ in range(100):
            weights = method.weights(torch.tensor([1.0, 0.0]).double(), torch.tensor([True, True]))
        assert weights.tolist() == pytest.approx([1, 0])

    @pytest.mark.parametrize("memory", ["persistent", "batch"])
    def test_the_loss_has_the_gradient_of_its_equation_with_given_weights(self, any_set, memory):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, step=2.0, memory=memory)
        batch = doubled(whole(graphs))
        losses, known = label_losses(method.classifier(batch), batch, schema.task)
        members = [batch.environment == environment for environment in (0, 1)]
        risks = torch.stack([losses[here].sum() / known[here].sum() for here in members])
        weights = (2.0 * risks.detach()).softmax(0)
        actual = method.loss(batch, Progress())["weighted_risk"]
        assert actual.item() == pytest.approx((weights * risks).sum().item(), abs=1e-6)
        assert_same_grads(actual, (weights * risks).sum(), method, atol=1e-6)

    def test_an_environment_without_labels_takes_no_part(self):
        graphs = PackedGraphs.from_data_list(chemical_graphs())
        graphs.y[graphs.environment == 1] = math.nan
        method, batch = self.build(CHEMICAL, step=1.0), doubled(whole(graphs))
        expected = method.risk(method.classifier(batch), batch)
        assert method.loss(batch, Progress())["weighted_risk"].item() == pytest.approx(expected.item(), abs=1e-9)

    @pytest.mark.parametrize("memory", ["persistent", "batch"])
    def test_absent_environment_keeps_its_memory_and_takes_no_part_in_the_loss(self, memory):
        method = built("groupdro", step=1.0, memory=memory)
        weights = method.weights(torch.tensor([0.0, 0.0]).double(), torch.tensor([True, False]))
        assert weights.tolist() == pytest.approx([1, 0])
        if memory == "persistent":
            assert method.log_weights.exp().tolist() == pytest.approx([0.5, 0.5])

    def test_without_steps_it_is_the_mean_of_the_present_environments(self):
        method = built("groupdro", step=0.0)
        risks = torch.tensor([0.4, 0.8]).double()
        assert (method.weights(risks, torch.tensor([True, True])) * risks).sum().item() == pytest.approx(0.6)
        assert (method.weights(risks, torch.tensor([False, True])) * risks).sum().item() == pytest.approx(0.8)
