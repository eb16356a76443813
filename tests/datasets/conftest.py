"""Fixtures of the digits, made once for all tests of this folder."""

import numpy as np
import pytest

from outland.datasets.superpixels import superpixel_graphs
from outland.graphs import PackedGraphs
from tests.datasets.cases import sample_digits


@pytest.fixture(scope="package")
def digits() -> tuple[np.ndarray, np.ndarray]:
    return sample_digits()


@pytest.fixture(scope="package")
def graphs(digits) -> PackedGraphs:
    return superpixel_graphs(*digits, workers=1)
