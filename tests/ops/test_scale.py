import pytest
import torch

from outland.ops import scale_rows
from tests.ops.cases import DEVICE, close, needs_triton


@needs_triton
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (9, 5), (70, 600)])
@pytest.mark.parametrize("of", ["both", "rows", "weights"])
def test_the_kernel_equals_the_plain_form(rows, width, of):
    generator = torch.Generator().manual_seed(rows)
    x, grad = (torch.randn(rows, width, generator=generator).to(DEVICE) for _ in range(2))
    weight = torch.rand(rows, generator=generator).to(DEVICE)
    sides = []
    for form in (scale_rows.kernel, scale_rows.plain):
        inputs = x.clone().requires_grad_(of != "weights"), weight.clone().requires_grad_(of != "rows")
        out = form(*inputs)
        sides.append((out, *torch.autograd.grad(out, [value for value in inputs if value.requires_grad], grad)))
    for actual, expected in zip(*sides, strict=True):
        close(actual, expected)
