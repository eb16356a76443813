"""Devices by name, and the threads of a CPU."""

import os
import sys

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from outland.devices import busy_cores_note, find_device, one_blas_thread, one_thread
from outland.errors import OutlandError


def test_unknown_device():
    with pytest.raises(OutlandError, match="unknown device 'gpu7'"):
        find_device("gpu7")


@pytest.mark.parametrize(
    ("load", "threads", "is_busy"), [(0.7, 2, False), (0.9, 2, True), (3.0, 2, True), (3.0, 1, False)]
)
def test_a_note_says_so_where_others_use_the_cores(monkeypatch, load, threads, is_busy):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    note = busy_cores_note(torch.device("cpu"), 2)
    assert bool(note) == is_busy
    assert not is_busy or f"load {load:.1f} on 2 cores" in note
    assert busy_cores_note(torch.device("cuda"), 2) == ""


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
