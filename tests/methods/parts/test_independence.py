import math

import pytest
import torch

from outland.methods.parts.independence import (
    decorrelation,
    fourier_features,
    gaussian_kernels,
    hsic,
    standardised,
)
from outland.ops import simplex
from tests.methods.cases import correlated, uniform


def golden_features():
    x = torch.tensor([[0, 0], [1, 1], [2, 0]], dtype=torch.double)
    phase = torch.tensor([0, math.pi / 2], dtype=torch.double)[None, None]
    return fourier_features(x, torch.ones(1, 1, 1, dtype=torch.double), phase)


class TestDecorrelation:
    def test_golden(self):
        weights = [uniform(3), torch.tensor([0.5, 0.25, 0.25]).double(), torch.tensor([0.0, 1.0, 0.0]).double()]
        actual = [decorrelation(golden_features(), weight).item() for weight in weights]
        assert actual == pytest.approx([0.0172568507, 3.0380347974e-5, 0], abs=1e-9)

    @pytest.mark.parametrize("pairs", ["same", "all"])
    @pytest.mark.parametrize("shape", [(3, 7, 4), (2, 4, 9), (2, 5, 1)])
    def test_it_equals_a_plain_loop(self, pairs, shape):
        torch.manual_seed(0)
        features, weights = torch.randn(shape).double(), torch.rand(shape[1]).double()
        weights = weights / weights.sum()
        expected = 0.0
        for k in range(shape[0]):
            for m in range(shape[0]):
                for i in range(shape[2]):
                    for j in range(shape[2]):
                        if i == j or (pairs == "same" and k != m):
                            continue
                        first, two = features[k, :, i], features[m, :, j]
                        covariance = (weights * first * two).sum() - (weights * first).sum() * (weights * two).sum()
                        expected += covariance.item() ** 2
        assert decorrelation(features, weights, pairs).item() == pytest.approx(expected, abs=1e-9)

    def test_its_gradient_is_right(self):
        logits = torch.randn(5, dtype=torch.double, requires_grad=True)
        features, valid = torch.randn(2, 5, 3, dtype=torch.double), torch.tensor([True, True, False, True, True])
        for pairs in ("same", "all"):
            assert torch.autograd.gradcheck(lambda w, p=pairs: decorrelation(features, simplex(w, valid), p), logits)

    def test_independent_coordinates_cost_ever_less_and_dependent_ones_do_not(self):
        torch.manual_seed(0)
        actual = []
        for rows in (100, 2000):
            z = torch.randn(rows, 3, dtype=torch.double)
            z = torch.cat([z, z[:, :1].square()], dim=1)  # the last depends on the first and does not correlate with it
            features = fourier_features(z, torch.ones(1, 1, 4).double(), torch.zeros(1, 1, 4).double())
            actual.append((decorrelation(features[:, :, :3], uniform(rows)), decorrelation(features, uniform(rows))))
        assert actual[1][0] < actual[0][0] / 10
        assert actual[1][0] < 1e-3 < 1e-2 < actual[1][1]

    def test_features_of_the_paper_and_of_the_code(self):
        z, settings = (
            correlated(5, 3),
            {"frequency": torch.randn(2, 1, 1).double(), "phase": torch.rand(2, 1, 3).double()},
        )
        code = fourier_features(z, **settings, normalise=True)
        assert code.shape == (4, 5, 3)
        angle = settings["frequency"][1] * z[2] + settings["phase"][1]
        angle = ((angle - angle.min()) / (angle.max() - angle.min()) * math.pi / 2)[0]
        assert torch.allclose(code[1, 2], angle.cos())
        assert torch.allclose(code[3, 2], angle.sin())
        assert fourier_features(z[:, :1], settings["frequency"], settings["phase"][:, :, :1], True).isfinite().all()

    def test_standardised_rows_leave_padding_out(self):
        z, valid = torch.randn(6, 3).double() * 5 + 2, torch.tensor([True] * 4 + [False] * 2)
        actual = standardised(z, valid)
        assert torch.allclose(actual[:4].mean(0), torch.zeros(3).double(), atol=1e-12)
        assert torch.allclose(actual[:4].var(0, correction=0), torch.ones(3).double(), atol=1e-4)
        assert (actual[4:] == 0).all()
        assert torch.allclose(actual[:4], standardised(z[:4], valid[:4]))


class TestHSIC:
    def test_golden(self):
        z = torch.arange(4).double()
        blocks = torch.stack([z, z.square(), torch.ones(4).double()])[:, :, None]
        actual = hsic(gaussian_kernels(blocks, torch.ones(4).bool()), uniform(4), torch.tensor(4))
        assert actual[0].tolist() == pytest.approx([0.2109122680, 0.2290774272, 0], abs=1e-9)

    @pytest.mark.parametrize("bandwidth", ["one", "median"])
    def test_it_equals_a_plain_loop(self, bandwidth):
        torch.manual_seed(0)
        blocks, n = torch.randn(3, 6, 2).double(), 6
        kernels = []
        for block in blocks:
            apart = torch.tensor([[(a - b).square().sum().item() for a in block] for b in block]).double()
            pairs = sorted(apart[a, b].item() for a in range(n) for b in range(n) if a != b)
            kernels.append((-apart / (2 * (1 if bandwidth == "one" else pairs[(len(pairs) - 1) // 2]))).exp())
        centre = torch.eye(n).double() - 1 / n
        actual = hsic(gaussian_kernels(blocks, torch.ones(n).bool(), bandwidth), uniform(n), torch.tensor(n))
        for i in range(3):
            for j in range(3):
                expected = torch.trace(kernels[i] @ centre @ kernels[j] @ centre) / (n - 1) ** 2
                assert actual[i, j].item() == pytest.approx(expected.item(), abs=1e-6)

    def test_whole_weights_are_repeated_rows(self):
        """A graph of weight 2 is that graph twice: weights act on the kernels."""
        torch.manual_seed(0)
        blocks, weights = torch.randn(2, 4, 3).double(), torch.tensor([2, 1, 0, 1])
        twice = blocks.repeat_interleave(weights, dim=1)
        expected = hsic(gaussian_kernels(twice, torch.ones(4).bool()), uniform(4), torch.tensor(4))
        actual = hsic(gaussian_kernels(blocks, torch.ones(4).bool()), weights / weights.sum().double(), torch.tensor(4))
        assert torch.allclose(actual, expected)

    def test_it_sees_dependence_and_not_its_absence(self):
        torch.manual_seed(0)
        z = torch.randn(400, dtype=torch.double)
        blocks = torch.stack([z, z.square(), torch.randn(400).double()])[:, :, None]
        actual = hsic(gaussian_kernels(blocks, torch.ones(400).bool(), "median"), uniform(400), torch.tensor(400))
        assert actual[0, 0] > 0.05
        assert actual[0, 2] < 1e-3
        assert actual[0, 1] > 10 * actual[0, 2]

    def test_padding_does_not_count(self):
        torch.manual_seed(0)
        blocks, valid = torch.randn(2, 7, 3).double(), torch.tensor([True] * 5 + [False] * 2)
        weights = simplex(torch.zeros(7).double(), valid)
        padded = hsic(gaussian_kernels(blocks, valid, "median"), weights, valid.sum())
        exact = hsic(gaussian_kernels(blocks[:, :5], valid[:5], "median"), uniform(5), valid.sum())
        assert torch.allclose(padded, exact)
