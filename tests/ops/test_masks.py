import pytest
import torch

from outland.ops import mask_weights
from tests.ops.cases import DEVICE, close, needs_triton, random_edges


@needs_triton
@pytest.mark.parametrize(("nodes", "edges"), [(50, 170), (300, 0), (300, 7), (0, 0)])
def test_the_kernel_equals_the_plain_form(nodes, edges):
    grouped, generator = random_edges(nodes, edges), torch.Generator().manual_seed(4)
    shapes = ((nodes, 6), (1, 6), (1,), (1, 12), (1,), (nodes,), (edges,))
    *tensors, node_grad, edge_grad = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    sides = []
    for form in (mask_weights.kernel, mask_weights.plain):
        inputs = [tensor.clone().requires_grad_() for tensor in tensors]
        node, edge = form(*inputs, grouped)
        sides.append((node, edge, *torch.autograd.grad((node, edge), inputs, (node_grad, edge_grad))))
    for actual, expected in zip(*sides, strict=True):
        close(actual, expected)
