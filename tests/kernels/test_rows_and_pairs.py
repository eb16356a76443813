"""Embeddings, pairs, masks and scaled rows on the GPU beside their plain twins; off a GPU Triton interprets them."""

import pytest
import torch

from tests.kernels.cases import DEVICE, close, triton_is_here
from tests.kernels.test_sparse import wired

pytestmark = triton_is_here


@pytest.mark.parametrize(("rows", "width", "sizes"), [(1, 4, (3,)), (70, 70, (5, 6, 2)), (600, 20, (119, 4, 12))])
def test_embeddings_and_their_slopes_equal_their_twin(rows, width, sizes):
    from outland.kernels.embed import embed

    random = torch.Generator().manual_seed(0)
    values = torch.stack([torch.randint(size, (rows,), generator=random) for size in sizes], 1).to(DEVICE)
    offsets = torch.tensor(sizes).cumsum(0).sub(torch.tensor(sizes)).to(DEVICE)
    table = torch.randn(sum(sizes), width, generator=random).to(DEVICE)
    slope = torch.randn(rows, width, generator=random).to(DEVICE)
    one, other = table.clone().requires_grad_(), table.clone().requires_grad_()
    for small in (values, values.to(torch.uint8)):
        out = embed(small, offsets, one)
        expected = torch.nn.functional.embedding(values + offsets, other).sum(1)
        close(out, expected)
    out.backward(slope)
    expected.backward(slope)
    close(one.grad, other.grad)


@pytest.mark.parametrize("width", [1, 3, 150])
@pytest.mark.parametrize("biased", [True, False])
def test_pairs_equal_their_twin(width, biased):
    from outland.kernels.pair import pair_sum

    source, target, incoming, outgoing = wired(12, 40)
    random = torch.Generator().manual_seed(2)
    both = torch.randn(12, 2 * width, generator=random).to(DEVICE)
    bias = torch.randn(width, generator=random).to(DEVICE)
    slope = torch.randn(40, width, generator=random).to(DEVICE)
    sides = []
    for ours in (True, False):
        given, added = both.clone().requires_grad_(), bias.clone().requires_grad_()
        if ours:
            out = pair_sum(given, added if biased else None, torch.stack([source, target]), incoming, outgoing)
        else:
            out = given[source][:, 0::2] + given[target][:, 1::2] + (added if biased else 0)
        out.backward(slope)
        sides.append((out, given.grad, added.grad))
    close(sides[0][0], sides[1][0])
    close(sides[0][1], sides[1][1])
    if biased:
        close(sides[0][2], sides[1][2])


@pytest.mark.parametrize(("nodes", "edges"), [(50, 170), (300, 0), (300, 7), (0, 0)])
def test_mask_weights_equal_their_twin(nodes, edges):
    from outland.kernels.masks import mask_weights

    source, target, incoming, outgoing = wired(nodes, edges)
    random = torch.Generator().manual_seed(4)
    said, node_slope, edge_slope = (
        torch.randn(shape, generator=random).to(DEVICE) for shape in ((nodes, 3), (nodes,), (edges,))
    )
    sides = []
    for ours in (True, False):
        given, node_bias, edge_bias = (
            start.clone().requires_grad_() for start in (said, said.new_tensor([0.3]), said.new_tensor([-0.7]))
        )
        if ours:
            wires = (torch.stack([source, target]), incoming, outgoing)
            node, edge = mask_weights(given, node_bias, edge_bias, *wires)
        else:
            node = (given[:, 0] + node_bias).sigmoid()
            edge = (given[source, 1] + given[target, 2] + edge_bias).sigmoid()
        slopes = torch.autograd.grad((node, edge), (given, node_bias, edge_bias), (node_slope, edge_slope))
        sides.append((node, edge, *slopes))
    for found, expected in zip(*sides, strict=True):
        close(found, expected)


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (9, 5), (70, 600)])
@pytest.mark.parametrize("of", ["both", "rows", "weights"])
def test_scaled_rows_equal_their_twin(rows, width, of):
    from outland.kernels.scale import scale_rows

    random = torch.Generator().manual_seed(rows)
    x, slope = (torch.randn(rows, width, generator=random).to(DEVICE) for _ in range(2))
    weight = torch.rand(rows, generator=random).to(DEVICE)
    sides = []
    for ours in (True, False):
        given, times = x.clone().requires_grad_(of != "weights"), weight.clone().requires_grad_(of != "rows")
        out = scale_rows(given, times) if ours else given * times[:, None]
        asked = [one for one in (given, times) if one.requires_grad]
        sides.append((out, *torch.autograd.grad(out, asked, slope)))
    for found, expected in zip(*sides, strict=True):
        close(found, expected)
