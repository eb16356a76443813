import math

import pytest
import torch

from outland.methods.parts.contrast import supervised_contrast
from tests.methods.cases import numbers


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
