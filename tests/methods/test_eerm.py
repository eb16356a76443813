import itertools

import pytest
import torch

from outland.graphs import PackedGraphs
from outland.methods import Progress, find_method
from tests.cases import MethodCase, doubled
from tests.conftest import REAL, odd_graphs, whole
from tests.methods.cases import seeded


def by_content(method, batch, probabilities):
    """Edits that depend on the real edges alone, in place of random ones."""
    index = torch.arange(len(probabilities))
    kept = torch.minimum(index, batch.reverse)
    return (kept[:, None] * 7 + torch.arange(probabilities.shape[1]) * 3) % 5 < 2


def graphs_without(graphs, kept):
    """The set with only the edges that are kept."""
    data = graphs.to_data_list()
    for graph, edges in zip(data, kept.split(graphs.edge_counts.tolist()), strict=True):
        graph.edge_index = graph.edge_index[:, edges]
        if graph.edge_attr is not None:
            graph.edge_attr = graph.edge_attr[edges]
    return PackedGraphs.from_data_list(data)


class TestEERM(MethodCase):
    name = "eerm"
    zero = {"strength": 0, "beta": 1}
    one_pass = False

    def test_padding_changes_neither_losses_nor_gradients(self, any_set, monkeypatch):
        """With edits that do not depend on how many rows there are to draw for."""
        monkeypatch.setattr("outland.methods.eerm.EERM.draw_edits", by_content)
        super().test_padding_changes_neither_losses_nor_gradients(any_set)

    def test_no_edits_is_beta_times_erm_without_variance(self, any_set):
        schema, graphs = any_set
        method, stepper = self.ready(schema, graphs, strength=0, beta=2.5)
        batch = doubled(whole(graphs))
        terms = stepper.backward(stepper.optimizers[0], batch, Progress())
        assert terms["variance"].item() == 0
        ours = [p.grad.clone() for p in method.classifier.parameters() if p.grad is not None]
        risk = method.risk(method.classifier(batch), batch)
        used = [p for p in method.classifier.parameters() if p.grad is not None]
        expected = torch.autograd.grad(risk, used, allow_unused=True)
        assert terms["risk"].item() == pytest.approx(2.5 * risk.item(), abs=1e-9)
        for first, second in zip(ours, expected, strict=True):
            assert torch.allclose(first, torch.zeros_like(first) if second is None else 2.5 * second, atol=1e-9)
        assert stepper.backward(stepper.optimizers[1], batch, Progress())["editors"].item() == 0

    def test_one_editor_has_no_variance(self, any_set):
        schema, graphs = any_set
        _, stepper = self.ready(schema, graphs, editors=1)
        log = stepper.step(doubled(whole(graphs)), Progress())
        assert log["classifier.variance"].item() == 0
        assert log["editors.editors"].item() == 0
        assert log["classifier.risk"].isfinite()

    @pytest.mark.parametrize("strength", [0.3, 1.0])
    def test_edges_fall_as_often_as_the_score_function_says(self, any_set, strength):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, strength=strength)
        method.eval()
        batch = doubled(whole(graphs))
        probabilities = method.drop_probabilities(batch).detach()
        assert probabilities.max() <= strength
        assert torch.equal(probabilities, batch.reversed(probabilities))
        edits = torch.stack([method.draw_edits(batch, probabilities) for _ in range(4000)])
        assert torch.equal(edits, edits[:, batch.reverse])
        deviation = (probabilities * (1 - probabilities) / 4000).sqrt()
        assert ((edits.double().mean(0) - probabilities).abs() < 5 * deviation).all()

    def test_likelihood_equals_a_plain_loop_and_sums_to_one(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, strength=0.8)
        method.eval()
        batch = doubled(whole(graphs))
        probabilities = method.drop_probabilities(batch).detach()
        dropped = method.draw_edits(batch, probabilities)
        expected = torch.zeros(6, 3).double()
        for edge in range(batch.num_edges):
            if edge <= batch.reverse[edge]:
                for k in range(3):
                    p = probabilities[edge, k]
                    expected[batch.edge_batch[edge], k] += (p if dropped[edge, k] else 1 - p).log()
        assert torch.allclose(method.log_likelihood(batch, probabilities, dropped), expected, atol=1e-9)
        pair = doubled(whole(graphs.select(torch.tensor([5]))))  # one undirected edge: dropped, or not
        probabilities = method.drop_probabilities(pair).detach()
        both = [
            method.log_likelihood(pair, probabilities, torch.full_like(probabilities, v).bool()).exp()
            for v in (0.0, 1.0)
        ]
        assert torch.allclose(both[0] + both[1], torch.ones(1, 3).double(), atol=1e-9)

    def test_rewards_equal_a_plain_loop(self):
        losses = torch.rand(4, 2, 3, generator=seeded()).double()
        known = torch.tensor([[True, True], [True, False], [False, False], [False, True]])
        losses = torch.where(known[:, :, None], losses, 0)
        reward, counts = find_method("eerm").rewards(losses, known)
        assert counts.tolist() == [True, True, False, True]
        for graph in range(4):
            known_losses = losses[graph][known[graph]]
            expected = known_losses.mean(0).var().item() if len(known_losses) else 0.0
            assert reward[graph].item() == pytest.approx(expected, abs=1e-9)

    def test_editors_climb_the_expected_variance(self, monkeypatch):
        """REINFORCE's expected gradient is that of the expected reward, both over all edits there can be.

        The baseline of two like graphs holds half of the graph's own reward, so half of the gradient is left.
        """
        graphs = PackedGraphs.from_data_list(odd_graphs()).select(torch.tensor([5, 5]))
        method = self.build(REAL, strength=0.9, editors=2)
        method.eval()
        both, single = doubled(whole(graphs)), doubled(whole(graphs.select(torch.tensor([0]))))
        moves = [method.editor.last.bias, method.editor.last.weight, method.editor.first.weight]
        expected, actual = torch.zeros((), dtype=torch.double), torch.zeros((), dtype=torch.double)
        for edit in itertools.product((False, True), repeat=2):
            dropped = torch.tensor([edit, edit])  # an edge in both directions
            reward, _ = method.rewards(*method.losses(single, dropped))
            probability = method.log_likelihood(single, method.drop_probabilities(single), dropped).sum().exp()
            expected = expected + probability * reward.sum().detach()
        for edit in itertools.product((False, True), repeat=4):
            dropped = torch.tensor([edit[:2], edit[2:]]).repeat_interleave(2, dim=0)
            probability = method.log_likelihood(both, method.drop_probabilities(both), dropped).sum().exp().detach()
            monkeypatch.setattr(method, "draw_edits", lambda batch, probabilities, dropped=dropped: dropped)
            actual = actual - probability * method.editor_loss(both, Progress())["editors"]
        grads, ours = torch.autograd.grad(expected, moves), torch.autograd.grad(actual, moves)
        for grad, mine in zip(grads, ours, strict=True):
            assert grad.abs().max() > 0
            assert torch.allclose(mine / grad.abs().max(), grad / 2 / grad.abs().max(), atol=1e-6)

    def test_variance_moves_the_classifier_and_not_the_editors(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs)
        variance = method.classifier_loss(doubled(whole(graphs)), Progress())["variance"]
        assert variance.item() > 0
        classifier, editor = list(method.classifier.parameters()), list(method.editor.parameters())
        grads = torch.autograd.grad(variance, classifier + editor, allow_unused=True)
        assert any(grad is not None and grad.abs().max() > 0 for grad in grads[: len(classifier)])
        assert all(grad is None for grad in grads[len(classifier) :])

    def test_variance_is_that_of_the_views_risks(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs, beta=0.5)
        method.eval()
        batch = doubled(whole(graphs))
        method.reseed(3, torch.device("cpu"))
        terms = method.classifier_loss(batch, Progress())
        method.reseed(3, torch.device("cpu"))
        dropped = method.draw_edits(batch, method.drop_probabilities(batch))
        risks = []
        for k in range(3):
            kept = ~dropped[:, k]
            thin = graphs_without(graphs, kept)
            risks.append(method.risk(method.classifier(doubled(whole(thin))), doubled(whole(thin))))
        assert terms["variance"].item() == pytest.approx(torch.stack(risks).var().item(), abs=1e-9)
        assert terms["risk"].item() == pytest.approx(0.5 * torch.stack(risks).mean().item(), abs=1e-9)

    def test_inference_does_without_the_editors(self, any_set):
        schema, graphs = any_set
        method, _ = self.ready(schema, graphs)
        counts = method.parameter_counts()
        assert counts["inference"] == counts["classifier"] == counts["total"] - counts["editor"]
        method.eval()
        batch = doubled(whole(graphs))
        assert torch.equal(method(batch), method.classifier(batch))
