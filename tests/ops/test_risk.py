import pytest
import torch

from outland.ops import mean_risk, use_kernels
from tests.ops.cases import DEVICE, close, needs_triton


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
def test_the_kernel_equals_the_plain_form(rows, width, kind, masked):
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
