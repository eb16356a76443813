"""Losses and mask penalties on the GPU beside their plain twins; off a GPU they run in Triton's interpreter."""

import pytest
import torch
from torch.nn import functional

from tests.kernels.cases import DEVICE, close, triton_is_here

pytestmark = triton_is_here


def labels(kind, rows, width, random):
    if kind == "multiclass":
        return torch.randint(width, (rows,), generator=random)
    y = torch.randint(2, (rows, width), generator=random).float()
    if kind == "regression":
        y = torch.randn(rows, width, generator=random)
    y[torch.rand(rows, width, generator=random) < 0.3] = torch.nan
    return y


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["multiclass", "binary", "regression"])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (33, 3), (60, 12)])
def test_mean_risk_equals_its_twin(rows, width, kind, masked):
    from outland.kernels.risk import mean_risk

    random = torch.Generator().manual_seed(rows)
    logits = (4 * torch.randn(rows, width, generator=random)).to(DEVICE)
    y = labels(kind, rows, width, random).to(DEVICE)
    mask = (torch.arange(rows) % 4 != 1).to(DEVICE) if masked else None
    one, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    if kind == "multiclass":
        losses = functional.cross_entropy(other, y, reduction="none")[:, None]
        known = torch.ones_like(losses, dtype=torch.bool)
    else:
        known = ~y.isnan()
        loss = functional.binary_cross_entropy_with_logits if kind == "binary" else functional.mse_loss
        losses = loss(other, y.nan_to_num(), reduction="none")
    known = known if mask is None else known & mask[:, None]
    expected = losses[known].sum() / known.sum().clamp(min=1)
    found = mean_risk(one, y, mask, kind)
    close(found, expected)
    (3 * found).backward()
    (3 * expected).backward()
    close(one.grad, other.grad)


def test_penalties_of_no_graphs_have_no_slope():
    from outland.kernels.ratio import ratio_penalties

    node, edge = (torch.rand(rows).to(DEVICE).requires_grad_() for rows in (5, 9))  # padding alone
    starts = torch.zeros(1, dtype=torch.long).to(DEVICE)
    found = ratio_penalties(node, edge, (starts, starts), (0.3, 0.6), True)
    assert found.shape == (0,)
    found.sum().backward()
    for value in (node, edge):
        assert torch.equal(value.grad, torch.zeros_like(value))


@pytest.mark.parametrize("hard", [False, True])
def test_penalties_equal_their_twin(hard):
    from outland.kernels.ratio import ratio_penalties

    random = torch.Generator().manual_seed(0)
    counts = {"node": torch.tensor([3, 200, 1, 7]), "edge": torch.tensor([4, 500, 0, 6])}
    by_graph = [torch.cat([torch.zeros(1, dtype=torch.long), one.cumsum(0)]) for one in counts.values()]
    extra = 9  # rows of padding
    given = {
        name: torch.rand(int(one.sum()) + extra, generator=random).to(DEVICE).requires_grad_()
        for name, one in counts.items()
    }
    found = ratio_penalties(*given.values(), tuple(one.to(DEVICE) for one in by_graph), (0.3, 0.6), hard)
    slope = torch.randn(4, generator=random).to(DEVICE)
    found.backward(slope)
    slopes = {name: value.grad.clone() for name, value in given.items()}
    expected = 0
    for (name, value), ratio in zip(given.items(), (0.3, 0.6), strict=True):
        value.grad = None
        pieces = value[:-extra].split(counts[name].tolist())
        parts = []
        for piece in pieces:
            apart = (piece.sum() / max(len(piece), 1) - ratio).abs()
            share = (piece > 0).float().sum() / max(len(piece), 1) - ratio
            parts.append((apart + (share if hard else 0)) * (name == "node" or len(piece) > 0))
        expected = expected + torch.stack(parts)
    expected.backward(slope)
    close(found, expected)
    for name, value in given.items():
        close(slopes[name], value.grad)


@pytest.mark.parametrize("marked", [[True], [False], [True, False, True, True, False], [True] * 300 + [False] * 7])
def test_the_mean_of_what_counts_equals_its_twin(marked):
    from outland.kernels.mean import masked_mean

    mask, random = torch.tensor(marked, device=DEVICE), torch.Generator().manual_seed(len(marked))
    values = torch.randn(len(mask), generator=random).to(DEVICE)
    values[~mask] = torch.nan  # it is never looked at
    one, other = values.clone().requires_grad_(), values.clone().requires_grad_()
    found, expected = masked_mean(one, mask), torch.where(mask, other, 0).sum() / mask.sum().clamp(min=1)
    close(found, expected)
    (3 * found).backward()
    (3 * expected).backward()
    close(one.grad, other.grad)
