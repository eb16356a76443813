import math

import pytest
import torch

from outland.methods import Progress, build_method, method_settings
from outland.methods.ciga import hinge, supervised_contrast
from outland.methods.parts.risk import label_losses
from outland.methods.parts.subgraphs import highest_edge
from tests.cases import SMALL, doubled, statistics
from tests.conftest import whole
from tests.methods.cases import gradients, numbers
from tests.methods.families import SubgraphCase


class TestCIGA(SubgraphCase):
    name = "ciga"
    zero = {"ratio": 1.0, "alpha": 0, "beta": 0}
    smooth = {"beta": 0}  # the hinge is a mean over labels that change sides from step to step

    def test_golden_hinge(self):
        rationale, complement = numbers([0.2], [1], [0.5]), numbers([0.6], [0.4], [0.7])
        known = torch.ones(3, 1, dtype=torch.bool)
        assert hinge(rationale, complement, known).item() == pytest.approx(0.65, abs=1e-9)
        assert hinge(rationale, complement, known, over="known").item() == pytest.approx(1.3 / 3, abs=1e-9)
        assert hinge(rationale, complement, known, side="better").item() == pytest.approx(0.4, abs=1e-9)
        known[0] = False
        assert hinge(rationale, complement, known).item() == pytest.approx(0.7, abs=1e-9)

    def test_hinge_is_zero_where_the_complement_is_no_worse(self):
        losses, known = numbers([0.6], [1]), torch.ones(2, 1, dtype=torch.bool)
        assert hinge(losses, losses, known).item() == 0
        assert hinge(losses, losses / 2, known).item() == 0

    def test_indicator_carries_no_gradient(self):
        rationale, complement = numbers([0.2], [1.0], requires_grad=True), numbers([0.6], [0.4], requires_grad=True)
        value = hinge(rationale, complement, torch.ones(2, 1, dtype=torch.bool))
        actual = torch.autograd.grad(value, [rationale, complement], allow_unused=True)
        assert actual[0] is None
        assert actual[1].flatten().tolist() == [1, 0]

    @pytest.mark.parametrize("reach", ["all", "head"])
    def test_hinge_reaches_what_was_chosen(self, any_set, reach):
        schema, graphs = any_set
        method, batch = self.build(schema, hinge_reach=reach, hinge_mean="known"), doubled(whole(graphs))
        losses = method.complement_losses(batch, method.parts(batch)).sum()
        assert any(g.any() for g in gradients(losses, method.environment_head))
        for part in (method.scorer, method.classifier.encoder):
            assert any(g.any() for g in gradients(losses, part)) == (reach == "all")

    def test_the_hinge_is_the_complements(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, beta=0.7), doubled(whole(graphs))
        terms = method.loss(batch, Progress())
        fresh = self.build(schema, beta=0.7)
        parts = fresh.parts(batch)
        logits = fresh.classifier.head(fresh.embed_part(batch, parts.rationale, parts), batch)
        for name, value in statistics(fresh.classifier).items():
            assert torch.equal(value, method.classifier.get_buffer(name))
        others = fresh.environment_head(fresh.embed_part(batch, parts.complement, parts), batch)
        losses, known = label_losses(logits, batch, schema.task)
        complement_losses, _ = label_losses(others, batch, schema.task)
        worse = (complement_losses > losses) & known
        expected = 0.7 * complement_losses[worse].mean().item() if worse.any() else 0.0
        assert terms["hinge"].item() == pytest.approx(expected, abs=1e-9)

    def test_version_one_has_no_complement(self, any_set):
        schema, graphs = any_set
        torch.manual_seed(0)
        method = build_method("ciga", schema, SMALL, method_settings("ciga:v1", {})).double()
        assert method.environment_head is None
        assert list(method.loss(doubled(whole(graphs)), Progress())) == ["rationale", "contrast"]
        assert method_settings("ciga:v2", {}) == method_settings("ciga", {})
        assert method_settings("ciga:v2", {}).beta > 0

    def test_without_strength_it_classifies_subgraphs(self, any_set):
        schema, graphs = any_set
        method, batch = self.build(schema, alpha=0, beta=0), doubled(whole(graphs))
        terms = method.loss(batch, Progress())
        assert terms["contrast"].item() == 0
        assert terms["rationale"].item() == pytest.approx(method.risk(method(batch), batch).item(), abs=1e-12)

    @pytest.mark.parametrize("compared", ["classifier", "scorer"])
    def test_contrast_compares_what_was_chosen(self, any_set, compared):
        schema, graphs = any_set
        method, batch = self.build(schema, contrast=compared, beta=0), doubled(whole(graphs))
        parts, term = method.parts(batch), method.loss(batch, Progress())["contrast"]
        h = method.embed_part(batch, parts.rationale, parts)
        if compared == "scorer":
            kept = (highest_edge(parts.rationale.edge, batch) > 0) | (parts.rationale.node > 0)
            rows = [kept.nonzero().flatten()[batch.node_batch[kept] == graph] for graph in range(6)]
            h = torch.stack([parts.features[selected].mean(0) for selected in rows])
        _, known = label_losses(method(batch), batch, schema.task)
        expected = 4 * supervised_contrast(h, batch.y.reshape(6, -1), known)
        assert term.item() == pytest.approx(expected.item(), abs=1e-9)
        assert any(g.any() for g in gradients(term, method.classifier)) == (compared == "classifier")


class TestContrast:
    def contrast(self, h, y, temperature=1.0):
        return supervised_contrast(h, y[:, None], torch.ones(len(y), 1, dtype=torch.bool), temperature).item()

    def drawn(self):
        random = torch.Generator().manual_seed(0)
        return torch.randn(9, 4, generator=random, dtype=torch.double), torch.arange(9) % 3

    def test_golden(self):
        h, y = numbers([1, 0], [0, 1], [1, 1], [1, -1]), torch.tensor([0, 0, 1, 1])
        assert self.contrast(h, y) == pytest.approx(1.4397091714, abs=1e-9)
        assert self.contrast(h, y, 0.5) == pytest.approx(1.9501829142, abs=1e-9)

    def test_known_values(self):
        y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
        assert self.contrast(numbers([1, 2]).expand(8, 2), y) == pytest.approx(math.log(7))
        antipodal = numbers([1, 0], [-1, 0]).repeat_interleave(4, 0)
        assert self.contrast(antipodal, y) == pytest.approx(1.2645, abs=5e-5)

    def test_order_rotation_and_length_do_not_matter(self):
        h, y = self.drawn()
        expected = self.contrast(h, y)
        order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
        rotation, _ = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(2)).double())
        lengths = torch.linspace(0.1, 5, 9, dtype=torch.double)[:, None]
        for embeddings, labels in ((h[order], y[order]), (h @ rotation, y), (h * lengths, y), (h, 2 - y)):
            assert self.contrast(embeddings, labels) == pytest.approx(expected, abs=1e-12)

    def test_equals_a_loop_over_tasks_and_anchors_with_unknown_labels(self):
        h, _ = self.drawn()
        random = torch.Generator().manual_seed(3)
        labels = torch.randint(0, 2, (9, 3), generator=random).double()
        known = torch.rand(9, 3, generator=random) > 0.3
        known[:, 2] = False
        labels[~known] = torch.nan
        unit, anchors = h / h.norm(dim=1, keepdim=True), []
        for task in range(3):
            for i in range(9):
                others = [k for k in range(9) if k != i and known[k, task] and known[i, task]]
                positives = [j for j in others if labels[j, task] == labels[i, task]]
                if positives:
                    total = math.log(sum(math.exp(unit[i] @ unit[k] / 0.7) for k in others))
                    anchors.append(sum((unit[i] @ unit[j] / 0.7).item() - total for j in positives) / len(positives))
        actual = supervised_contrast(h, labels, known, 0.7).item()
        assert actual == pytest.approx(-sum(anchors) / len(anchors), abs=1e-12)

    def test_no_label_twice_costs_nothing_and_has_no_gradient(self):
        h = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        for rows in (1, 3):
            value = supervised_contrast(h[:rows], torch.arange(rows)[:, None], torch.ones(rows, 1, dtype=torch.bool))
            (grad,) = torch.autograd.grad(value, h)
            assert value.item() == 0
            assert not grad.any()
