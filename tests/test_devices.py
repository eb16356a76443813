"""Devices by name, and the threads of a CPU."""

import sys

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from outland.devices import find_device, one_blas_thread, one_thread
from outland.errors import OutlandError


def test_unknown_device():
    with pytest.raises(OutlandError, match="unknown device 'gpu7'"):
        find_device("gpu7")


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_one_thread_is_that_of_pytorch_and_is_given_back():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_products_of_numpy_and_scipy_have_one_thread_and_more_again_after():
    with one_blas_thread():  # loads the library of SciPy
        assert "scipy.linalg" in sys.modules
    with threadpool_limits(2, user_api="blas"):
        assert set(blas_threads()) == {2}
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}
