import pytest
import torch

from outland.ops import embedding_sum
from tests.ops.cases import DEVICE, close, needs_triton


@needs_triton
@pytest.mark.parametrize(("rows", "width", "sizes"), [(1, 4, (3,)), (70, 70, (5, 6, 2)), (600, 20, (119, 4, 12))])
def test_the_kernel_equals_the_plain_form(rows, width, sizes):
    generator = torch.Generator().manual_seed(0)
    values = torch.stack([torch.randint(size, (rows,), generator=generator) for size in sizes], 1).to(DEVICE)
    offsets = torch.tensor(sizes).cumsum(0).sub(torch.tensor(sizes)).to(DEVICE)
    table = torch.randn(sum(sizes), width, generator=generator).to(DEVICE)
    grad = torch.randn(rows, width, generator=generator).to(DEVICE)
    ours, plain = table.clone().requires_grad_(), table.clone().requires_grad_()
    for small in (values, values.to(torch.uint8)):
        out, expected = embedding_sum.kernel(ours, small, offsets), embedding_sum.plain(plain, values, offsets)
        close(out, expected)
    out.backward(grad)
    expected.backward(grad)
    close(ours.grad, plain.grad)
