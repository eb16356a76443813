import pytest
import torch

from outland.ops import pair_linear
from tests.ops.cases import DEVICE, close, needs_triton, random_edges


@needs_triton
@pytest.mark.parametrize("width", [1, 3, 150])
@pytest.mark.parametrize("biased", [True, False])
def test_the_kernel_equals_the_plain_form(width, biased):
    edges, generator = random_edges(12, 40), torch.Generator().manual_seed(2)
    shapes = ((12, 5), (width, 10), (width,), (40, width))
    *tensors, grad = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    sides = []
    for form in (pair_linear.kernel, pair_linear.plain):
        h, weight, bias = (tensor.clone().requires_grad_() for tensor in tensors)
        out = form(h, weight, bias if biased else None, edges)
        sides.append((out, *torch.autograd.grad(out, [h, weight, *([bias] if biased else [])], grad)))
    for actual, expected in zip(*sides, strict=True):
        close(actual, expected)


def test_it_is_a_linear_map_of_joined_ends():
    edges, generator = random_edges(12, 40), torch.Generator().manual_seed(3)
    h, weight, bias = (torch.randn(shape, generator=generator).to(DEVICE) for shape in ((12, 5), (3, 10), (3,)))
    source, target = edges.edge_index
    expected = torch.cat([h[source], h[target]], 1) @ weight.T + bias
    close(pair_linear(h, weight, bias, edges), expected)
