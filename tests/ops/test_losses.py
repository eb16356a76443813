import pytest
import torch

from outland.ops import Segments, mean_risk, ratio_penalties, use_kernels
from tests.ops.cases import DEVICE, close, needs_triton

PADDING = 9  # rows


def labels(kind, rows, width, generator):
    if kind == "multiclass":
        return torch.randint(width, (rows,), generator=generator)
    y = torch.randint(2, (rows, width), generator=generator).float()
    if kind == "regression":
        y = torch.randn(rows, width, generator=generator)
    y[torch.rand(rows, width, generator=generator) < 0.3] = torch.nan
    return y


@needs_triton
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["multiclass", "binary", "regression"])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (33, 3), (60, 12)])
def test_the_kernel_of_the_mean_risk_equals_the_plain_form(rows, width, kind, masked):
    generator = torch.Generator().manual_seed(rows)
    logits = (4 * torch.randn(rows, width, generator=generator)).to(DEVICE)
    y = labels(kind, rows, width, generator).to(DEVICE)
    mask = (torch.arange(rows) % 4 != 1).to(DEVICE) if masked else None
    ours, plain = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    risk, expected = mean_risk.kernel(ours, y, mask, kind), mean_risk.plain(plain, y, mask, kind)
    close(risk, expected)
    (3 * risk).backward()
    (3 * expected).backward()
    close(ours.grad, plain.grad)


@pytest.mark.parametrize(
    ("shape", "y", "kind", "taken"),
    [
        ((60, 3), torch.zeros(60, dtype=torch.long), "multiclass", True),
        ((60, 3), torch.full((60, 3), 1 / 3), "multiclass", False),  # probabilities of classes
        ((2**13, 2), torch.zeros(2**13, 2), "binary", True),
        ((2**13 + 1, 2), torch.zeros(2**13 + 1, 2), "binary", False),
        ((0, 2), torch.zeros(0, 2), "binary", False),
    ],
)
def test_which_labels_the_kernel_takes(shape, y, kind, taken, monkeypatch):
    monkeypatch.setattr("outland.ops.dispatch.has_triton", lambda: True)
    monkeypatch.setattr(mean_risk, "kernel", lambda *args: "kernel")
    with use_kernels(True):
        assert (mean_risk(torch.zeros(shape), y, None, kind) == "kernel") is taken


def segments(sizes):
    """Graphs of these sizes, and rows of padding."""
    sizes = torch.tensor(sizes, dtype=torch.long)
    batch = torch.arange(len(sizes) + 1).repeat_interleave(torch.cat([sizes, torch.tensor([PADDING])]))
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    return Segments(batch.to(DEVICE), ptr.to(DEVICE), sizes.to(DEVICE), padded=True)


@needs_triton
@pytest.mark.parametrize("indicator", ["hard", "none"])
def test_the_kernel_of_ratio_penalties_equals_the_plain_form(indicator):
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
