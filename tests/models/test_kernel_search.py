"""Kernels, and predictions of groups that are left out, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from outland.errors import OutlandError
from outland.models.kernel_search import Kernel, find_kernel, leave_groups_out


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of three dimensions, and their squared distances."""
    x = np.random.default_rng(seed).normal(size=(count, 3))
    return x, np.square(x[:, None] - x).sum(2).astype(np.float32)


def test_groups_are_left_out_as_if_the_others_were_fitted_alone():
    x, distance = rows(40)
    y = np.stack([x[:, 0], np.sin(3 * x[:, 1])], 1)
    groups = np.arange(40) // 3
    kernel = Kernel(0.0, 2.0)(np.zeros_like(distance), distance)
    left = leave_groups_out(kernel, 0.1, y, groups)
    whole = KernelRidge(alpha=0.1, kernel="precomputed").fit(kernel, y)
    assert left.coefficients == pytest.approx(whole.dual_coef_, abs=1e-9)
    for group in (0, 5, 13):  # of three, three and one row
        inside = groups == group
        others = KernelRidge(alpha=0.1, kernel="precomputed").fit(kernel[np.ix_(~inside, ~inside)], y[~inside])
        expected = others.predict(kernel[np.ix_(inside, ~inside)])
        assert left.predictions[inside] == pytest.approx(expected, abs=1e-9)


def test_a_kernel_is_the_weighted_mean_of_similarity_and_nearness():
    similarity, distance = np.float32([[0.5]]), np.float32([[2.0]])
    assert Kernel(0.25, 4.0)(similarity, distance) == pytest.approx(0.25 * 0.5 + 0.75 * np.exp(-0.5))


def test_the_search_finds_smooth_kernels_for_smooth_numbers_and_noise_for_noise():
    x, distance = rows(200)
    smooth, noise = x[:, :1], np.random.default_rng(1).normal(size=(200, 1))
    similarity = np.eye(200, dtype=np.float32)
    groups = np.arange(200) // 2
    kernel, least = find_kernel(similarity, distance, smooth, groups, 0)
    assert (kernel.share, least) == (0.03, 0.001)
    assert kernel.length >= 3 * np.median(distance)
    _, most = find_kernel(similarity, distance, noise - noise.mean(), groups, 0)
    assert most == 1.0


def test_groups_keep_a_search_from_learning_what_only_neighbours_know():
    """Numbers that are those of the group alone: single rows left out say that they can be learned, groups do not."""
    generator = np.random.default_rng(0)
    groups = np.arange(300) // 5
    x = generator.normal(size=(60, 3))[groups] + 0.05 * generator.normal(size=(300, 3))
    y = generator.normal(size=(60, 1))[groups]
    distance = np.square(x[:, None] - x).sum(2).astype(np.float32)
    similarity = np.zeros_like(distance)
    _, by_rows = find_kernel(similarity, distance, y, np.arange(300), 0)
    _, by_groups = find_kernel(similarity, distance, y, groups, 0)
    assert by_rows <= 0.01
    assert by_groups == 1.0


def test_a_matrix_that_is_no_kernel_is_refused():
    with pytest.raises(OutlandError, match="not positive definite"):
        leave_groups_out(np.array([[1.0, 3.0], [3.0, 1.0]]), 0.1, np.zeros((2, 1)), np.arange(2))
