import subprocess
import sys

import pytest
import torch

from outland.ops import scale_rows, use_kernels
from outland.ops.dispatch import is_supported


@pytest.mark.parametrize(("entries", "taken"), [(2**31 - 1, True), (2**31, False)])
def test_kernels_take_what_32_bits_index(entries, taken, monkeypatch):
    class OnGPU:
        is_cuda, dtype = True, torch.float32

        def numel(self):
            return entries

    monkeypatch.setattr("outland.ops.dispatch.has_triton", lambda: True)
    assert is_supported(OnGPU()) is taken
    monkeypatch.setattr("outland.ops.dispatch.has_triton", lambda: False)
    assert is_supported(OnGPU()) is False


def test_an_operation_takes_its_kernel_where_it_supports_the_arguments(monkeypatch):
    monkeypatch.setattr("outland.ops.dispatch.has_triton", lambda: True)
    monkeypatch.setattr(scale_rows, "kernel", lambda x, weight: "kernel")
    x, weight = torch.ones(3, 2), torch.ones(3)
    assert isinstance(scale_rows(x, weight), torch.Tensor)  # there is no GPU
    with use_kernels(True):
        assert scale_rows(x, weight) == "kernel"
        assert isinstance(scale_rows(x.double(), weight.double()), torch.Tensor)  # no kernel is in double precision
        assert isinstance(scale_rows(x, weight.bfloat16()), torch.Tensor)  # this one wants equal dtypes
        with torch.no_grad(), use_kernels(False):
            assert isinstance(scale_rows(x, weight), torch.Tensor)
        assert scale_rows(x, weight) == "kernel"
    assert isinstance(scale_rows(x, weight), torch.Tensor)


def test_nothing_imports_triton_before_a_kernel_is_used():
    code = "import sys, outland.training; sys.exit('outland.ops.triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
