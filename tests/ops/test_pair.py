import pytest
import torch

from outland.ops import pair_linear, pair_scores
from tests.ops.cases import DEVICE, close, needs_triton, random_edges


@needs_triton
@pytest.mark.parametrize("width", [1, 3, 150])
@pytest.mark.parametrize("biased", [True, False])
def test_the_kernel_equals_the_plain_form(width, biased, monkeypatch):
    monkeypatch.setattr("outland.ops.triton.pair._GRAD_COLUMNS", 32)  # so that there are several blocks
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


@needs_triton
@pytest.mark.parametrize(("nodes", "edges", "width"), [(12, 40, 1), (12, 40, 5), (40, 300, 70), (5, 0, 3)])
def test_the_kernel_of_scores_equals_the_plain_form(nodes, edges, width, monkeypatch):
    monkeypatch.setattr("outland.ops.triton.pair_scores._GRAD_COLUMNS", 32)  # so that there are several blocks
    grouped, generator = random_edges(nodes, edges), torch.Generator().manual_seed(2)
    shapes = ((nodes, 5), (width, 10), (width,), (1, width), (1,), (edges, 1))
    *tensors, grad = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    sides = []
    for form in (pair_scores.kernel, pair_scores.plain):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        out = form(*leaves, grouped)
        sides.append((out, *torch.autograd.grad(out, leaves, grad)))
    for actual, expected in zip(*sides, strict=True):
        close(actual, expected)


@needs_triton
def test_scores_in_bf16_are_bf16():
    edges, generator = random_edges(12, 40), torch.Generator().manual_seed(3)
    tensors = [torch.randn(shape, generator=generator).to(DEVICE) for shape in ((12, 5), (7, 10), (7,), (1, 7), (1,))]
    with torch.autocast(DEVICE.type, torch.bfloat16):
        actual, expected = (form(*tensors, edges) for form in (pair_scores.kernel, pair_scores.plain))
    assert actual.dtype == expected.dtype == torch.bfloat16
    close(actual.float(), expected.float(), 0.02)


def test_scores_are_a_network_on_joined_ends():
    edges, generator = random_edges(12, 40), torch.Generator().manual_seed(3)
    shapes = ((12, 5), (7, 10), (7,), (2, 7), (2,))
    h, weight, bias, last, last_bias = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    source, target = edges.edge_index
    expected = (torch.cat([h[source], h[target]], 1) @ weight.T + bias).relu() @ last.T + last_bias
    close(pair_scores(h, weight, bias, last, last_bias, edges), expected)


@needs_triton
def test_a_nan_at_one_end_reaches_the_scores_of_its_edges_alone():
    edges = random_edges(12, 40)
    h = torch.randn(12, 5, generator=torch.Generator().manual_seed(4)).to(DEVICE)
    h[3] = torch.nan
    touched = (edges.edge_index == 3).any(0)
    for form in (pair_scores.kernel, pair_scores.plain):
        scores = form(h, *(torch.ones(shape, device=DEVICE) for shape in ((7, 10), (7,), (1, 7), (1,))), edges)
        assert torch.equal(scores.isnan()[:, 0], touched)
