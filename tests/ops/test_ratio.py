import pytest
import torch

from outland.ops import Segments, ratio_penalties
from tests.ops.cases import DEVICE, close, needs_triton

PADDING = 9  # rows


def segments(sizes):
    """Graphs of these sizes, and rows of padding."""
    sizes = torch.tensor(sizes, dtype=torch.long)
    batch = torch.arange(len(sizes) + 1).repeat_interleave(torch.cat([sizes, torch.tensor([PADDING])]))
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    return Segments(batch.to(DEVICE), ptr.to(DEVICE), sizes.to(DEVICE), padded=True)


@needs_triton
@pytest.mark.parametrize("indicator", ["hard", "none"])
def test_the_kernel_equals_the_plain_form(indicator):
    generator = torch.Generator().manual_seed(0)
    rows = (segments([3, 200, 1, 7]), segments([4, 500, 0, 6]))
    masks = [torch.rand(len(one.batch), generator=generator).to(DEVICE) for one in rows]
    grad, sides = torch.randn(4, generator=generator).to(DEVICE), []
    for form in (ratio_penalties.kernel, ratio_penalties.plain):
        inputs = [mask.clone().requires_grad_() for mask in masks]
        out = form(*inputs, *rows, (0.3, 0.6), indicator)
        sides.append((out, *torch.autograd.grad(out, inputs, grad)))
    for actual, expected in zip(*sides, strict=True):
        close(actual, expected)


@pytest.mark.parametrize("indicator", ["hard", "none"])
def test_penalties_by_hand(indicator):
    generator = torch.Generator().manual_seed(0)
    sizes = ([3, 200, 1, 7], [4, 500, 0, 6])
    rows = [segments(one) for one in sizes]
    masks = [torch.rand(len(one.batch), generator=generator).to(DEVICE) for one in rows]
    total = torch.zeros(4, device=DEVICE)
    for mask, lengths, ratio, is_node in zip(masks, sizes, (0.3, 0.6), (True, False), strict=True):
        for graph, piece in enumerate(mask[:-PADDING].split(lengths)):
            excess = (piece.sum() / max(len(piece), 1) - ratio).abs()
            share = (piece > 0).float().sum() / max(len(piece), 1) - ratio
            total[graph] += (excess + (share if indicator == "hard" else 0)) * (is_node or len(piece) > 0)
    close(ratio_penalties.plain(*masks, *rows, (0.3, 0.6), indicator), total)


@needs_triton
def test_penalties_of_no_graphs_have_no_gradient():
    node, edge = (torch.rand(PADDING).to(DEVICE).requires_grad_() for _ in range(2))  # padding alone
    penalties = ratio_penalties.kernel(node, edge, segments([]), segments([]), (0.3, 0.6), "hard")
    assert penalties.shape == (0,)
    penalties.sum().backward()
    for mask in (node, edge):
        assert torch.equal(mask.grad, torch.zeros_like(mask))
