import pytest
import torch
from torch.nn import functional

from outland.ops import DropoutDraws, Segments, segment_norm
from tests.ops.cases import DEVICE, close, needs_triton
from tests.ops.test_norm import Seeds

SIZES = (5, 1, 0, 70, 33)


def rows_of(sizes=SIZES, padding=0, last_segment=False):
    """Rows of graphs of these sizes; padding is past the last pointer, or a segment of its own."""
    counts = torch.tensor(sizes)
    batch = torch.arange(len(sizes)).repeat_interleave(counts)
    batch = torch.cat([batch, torch.full((padding,), len(sizes))])
    ptr = [torch.zeros(1, dtype=torch.long), counts.cumsum(0), *([counts.sum()[None] + padding] * last_segment)]
    return Segments(batch.to(DEVICE), torch.cat(ptr).to(DEVICE), counts.to(DEVICE), padding > 0)


def drawn(rows, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (100 + 3 * torch.randn(rows, width, generator=generator)).to(DEVICE), torch.randn(
        rows, width, generator=generator
    ).to(DEVICE)


@pytest.mark.parametrize("grouped", [True, False])
def test_it_is_instance_norm_graph_by_graph(grouped):
    segments = rows_of()
    values = torch.randn(sum(SIZES), 4, dtype=torch.double, device=DEVICE)
    actual = segment_norm(values, segments if grouped else segments._replace(ptr=None))
    for part, rows in zip(actual.split(SIZES), values.split(SIZES), strict=True):
        if len(rows) > 1:
            assert torch.allclose(part, functional.instance_norm(rows.T[None])[0].T)
        else:
            assert not part.any()
    padded = rows_of(padding=6, last_segment=True)
    filled = torch.cat([values, torch.randn(6, 4, dtype=torch.double, device=DEVICE)])
    normed = segment_norm(filled, padded if grouped else padded._replace(ptr=None))
    close(normed[:-6], actual, 1e-12)
    assert DEVICE.type == "cuda" or torch.equal(normed[:-6], actual)  # a GPU adds by index in any order
    assert not normed[-6:].any()


@needs_triton
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("width", "padding", "last_segment"), [(1, 0, False), (6, 50, False), (70, 3, True)])
def test_the_kernel_equals_the_plain_form(width, padding, last_segment, relu):
    segments = rows_of(padding=padding, last_segment=last_segment)
    values, grad = drawn(sum(SIZES) + padding, width)
    sides = []
    for form, given in ((segment_norm.kernel, segments), (segment_norm.plain, segments._replace(ptr=None))):
        x = values.clone().requires_grad_()
        out = form(x, given, relu)
        sides.append((out, *torch.autograd.grad(out, x, grad)))
    (out, back), (expected, expected_back) = sides
    close(out, expected, 1e-4)  # the mean is 33 deviations away from 0
    close(back, expected_back, 1e-4)
    if padding:
        assert not out[-padding:].any()
        assert not back[-padding:].any()


@needs_triton
def test_dropped_entries_are_the_same_forward_and_back():
    segments, (values, grad) = rows_of((90, 60)), drawn(150, 48)
    one, other = (values.clone().requires_grad_() for _ in range(2))
    out = segment_norm.kernel(one, segments, False, DropoutDraws(0.25, seeds=Seeds(12345)))
    keep = out != 0
    assert keep.float().mean().item() == pytest.approx(0.75, abs=0.02)
    expected = segment_norm.plain(other, segments) * keep / 0.75
    close(out, expected, 1e-4)
    close(*(torch.autograd.grad(side, x, grad)[0] for side, x in ((out, one), (expected, other))), 1e-4)
    again = segment_norm.kernel(values, segments, True, DropoutDraws(0.25, seeds=Seeds(12345)))
    assert torch.equal(again != 0, keep & (expected > 0))
    other_seed = segment_norm.kernel(values, segments, False, DropoutDraws(0.25, seeds=Seeds(12345, salt=1)))
    assert (other_seed != 0).eq(keep).float().mean().item() == pytest.approx(0.625, abs=0.03)


@needs_triton
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_and_none_are_dropped(p):
    segments, (values, _) = rows_of((9, 6)), drawn(15, 8)
    out = segment_norm.kernel(values, segments, True, DropoutDraws(p))
    close(out, segment_norm.plain(values, segments, True, DropoutDraws(p)), 1e-4)
    assert out.any() == (p == 0)


@needs_triton
def test_rows_in_bf16_stay_bf16():
    segments, (values, grad) = rows_of((90, 60)), drawn(150, 48)
    rounded, sides = (values - 100).bfloat16(), []
    for form, x in ((segment_norm.kernel, rounded), (segment_norm.plain, rounded.float())):
        leaf = x.clone().requires_grad_()
        out = form(leaf, segments, True)
        sides.append((out, *torch.autograd.grad(out, leaf, grad.to(out.dtype))))
    for actual, expected in zip(*sides, strict=True):
        assert (actual.dtype, expected.dtype) == (torch.bfloat16, torch.float32)
        close(actual.float(), expected, 0.01)


@needs_triton
def test_a_nan_stays_in_its_graph_and_column():
    segments, (values, _) = rows_of((9, 6)), drawn(15, 8)
    values[3, 5] = torch.nan
    out = segment_norm.kernel(values, segments, True)
    nan = torch.zeros(15, 8, dtype=torch.bool, device=DEVICE)
    nan[:9, 5] = True
    assert torch.equal(out.isnan(), nan)
    assert torch.equal(segment_norm.plain(values, segments, True).isnan(), nan)
