import pytest
import torch

from outland.ops import masked_mean
from tests.ops.cases import DEVICE, close, needs_triton


@needs_triton
@pytest.mark.parametrize("marked", [[True], [False], [True, False, True, True, False], [True] * 300 + [False] * 7])
def test_the_kernel_equals_the_plain_form(marked):
    mask, generator = torch.tensor(marked, device=DEVICE), torch.Generator().manual_seed(len(marked))
    values = torch.randn(len(mask), generator=generator).to(DEVICE)
    values[~mask] = torch.nan  # it is never read
    ours, plain = values.clone().requires_grad_(), values.clone().requires_grad_()
    mean, expected = masked_mean.kernel(ours, mask), masked_mean.plain(plain, mask)
    close(mean, expected)
    (3 * mean).backward()
    (3 * expected).backward()
    close(ours.grad, plain.grad)


def test_rows_that_are_not_marked_do_not_count():
    values = torch.tensor([[1.0, 2.0], [torch.nan, 9.0], [3.0, 6.0]])
    assert masked_mean(values, torch.tensor([True, False, True])).tolist() == [2.0, 4.0]
    assert masked_mean(values, torch.zeros(3, dtype=torch.bool)).tolist() == [0.0, 0.0]
    assert masked_mean(values[::2], None).tolist() == [2.0, 4.0]
