from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from outland.ops import DropoutDraws, EdgeCSR, Edges, Segments, pair_linear, pair_norm, segment_norm, use_kernels
from tests.ops.cases import DEVICE, close, needs_triton
from tests.ops.test_norm import Seeds

NODES, EDGES = (6, 2, 3, 12, 9), (20, 1, 0, 70, 33)  # of each graph


class Case(NamedTuple):
    """Some graphs; the last node of each but the last has no edge, or padding alone."""

    edges: Edges
    segments: Segments
    h: Tensor
    weight: Tensor
    grad: Tensor

    def run(self, form, *rest, dtype=torch.float32):
        """The rows of one form, and the gradients to h and to the weight."""
        h, weight = (tensor.to(dtype).requires_grad_() for tensor in (self.h, self.weight))
        out = form(h, weight, self.edges, self.segments, *rest)
        return out, *torch.autograd.grad(out, [h, weight], self.grad.to(dtype))


def drawn(width, nodes=NODES, edges=EDGES, padding=0, last_segment=False, grouped=False, ordered=False, mean=0.0):
    """Random graphs of these sizes, with edges in any order or in that of their sources.

    Padding edges are at the last node and, out of order, at that of the first graph; they may be grouped. They are past
    the last pointer, or a segment of its own.
    """
    generator, counts = torch.Generator().manual_seed(width), torch.tensor(edges)
    batch, first = torch.arange(len(edges)).repeat_interleave(counts), torch.tensor([0, *nodes[:-1]]).cumsum(0)
    linked = torch.tensor([*(count - 1 for count in nodes[:-1]), nodes[-1]])[batch]
    ends = first[batch] + (torch.rand(2, len(batch), generator=generator) * linked).long()
    if ordered:
        ends = ends[:, ends[0].argsort(stable=True)]
    padded = torch.tensor([sum(nodes) - 1, nodes[0] - 1])[torch.arange(padding) % (1 if ordered else 2)]
    whole = torch.cat([ends, padded.expand(2, -1)], 1)
    source, target = whole if grouped else ends
    incoming, outgoing = (EdgeCSR.from_edges(*pair, sum(nodes)) for pair in ((target, source), (source, target)))
    if ordered:
        outgoing = outgoing._replace(perm=None)
    pointers = [torch.zeros(1, dtype=torch.long), counts.cumsum(0), *([counts.sum()[None] + padding] * last_segment)]
    batch = torch.cat([batch, torch.full((padding,), len(edges))])
    segments = Segments(batch.to(DEVICE), torch.cat(pointers).to(DEVICE), counts.to(DEVICE), padding > 0)
    csr = (EdgeCSR(*(None if one is None else one.to(DEVICE) for one in csr)) for csr in (incoming, outgoing))
    shapes = (sum(nodes), 5), (width, 10), (len(batch), width)
    h, weight, grad = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    return Case(Edges(whole.to(DEVICE), *csr), segments, mean + h, weight, grad)


def steps(h, weight, edges, segments, relu=False, dropout=None):
    """What `pair_norm` is, by the kernels of its two steps."""
    return segment_norm.kernel(pair_linear.kernel(h, weight, None, edges), segments, relu, dropout)


def test_it_is_instance_norm_of_joined_ends_graph_by_graph():
    case = drawn(4)
    source, target = case.edges.edge_index
    raw = torch.cat([case.h[source], case.h[target]], 1) @ case.weight.T
    actual = pair_norm(case.h, case.weight, case.edges, case.segments)
    for part, rows in zip(actual.split(EDGES), raw.split(EDGES), strict=True):
        if len(rows) > 1:
            close(part, functional.instance_norm(rows.T[None])[0].T)
        else:
            assert not part.any()
    relu = pair_norm(case.h, case.weight, case.edges, case.segments, True)
    assert torch.equal(relu, actual.relu())


@needs_triton
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    ("width", "padding", "last_segment", "grouped"),
    [(1, 0, False, False), (6, 50, False, False), (6, 50, True, True), (70, 3, True, False), (70, 3, False, True)],
)
def test_the_kernel_equals_the_plain_form(width, padding, last_segment, grouped, ordered, relu, monkeypatch):
    monkeypatch.setattr("outland.ops.triton.pair_norm._GRAD_COLUMNS", 32)  # so that there are several blocks
    case = drawn(width, NODES, EDGES, padding, last_segment, grouped, ordered)
    assert (case.edges.outgoing.perm is None) == ordered
    actual = case.run(pair_norm.kernel, relu)
    plain = case._replace(
        edges=Edges(case.edges.edge_index), segments=case.segments._replace(ptr=None), grad=case.grad.clone()
    )
    for one, other in zip(actual, plain.run(pair_norm.plain, relu), strict=True):
        close(one, other)
    real = sum(EDGES)
    assert actual[0][:20].abs().max() > 1
    assert not actual[0][20].any()  # the only edge of its graph
    assert not actual[0][real:].any()
    isolated = torch.tensor(NODES[:-1]).cumsum(0) - 1
    assert not actual[1][isolated].any()
    assert actual[1][:5].any(1).all()


@needs_triton
@pytest.mark.parametrize("relu", [False, True])
def test_the_same_entries_are_dropped_as_by_the_norm_alone(relu):
    case = drawn(70, (30, 20), (90, 60))
    draws = DropoutDraws(0.25, seeds=Seeds(12345))
    out, *grads = case.run(pair_norm.kernel, relu, draws)
    expected, *expected_grads = case.run(steps, relu, draws)
    assert torch.equal(out == 0, expected == 0)
    assert (out == 0).float().mean().item() == pytest.approx(0.625 if relu else 0.25, abs=0.03)
    close(out, expected)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        close(grad, expected_grad)
    salted, *_ = case.run(pair_norm.kernel, False, DropoutDraws(0.25, seeds=Seeds(12345, salt=1)))
    assert ((salted == 0) != (expected == 0)).any()


@needs_triton
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_and_none_are_dropped(p):
    case = drawn(8)
    actual, expected = (case.run(form, True, DropoutDraws(p)) for form in (pair_norm.kernel, pair_norm.plain))
    for one, other in zip(actual, expected, strict=True):
        close(one, other)
        assert one.any() == (p == 0)


@needs_triton
def test_rows_in_bf16_stay_bf16():
    case = drawn(48, (30, 20), (90, 60))
    rounded = case._replace(**{name: getattr(case, name).bfloat16() for name in ("h", "weight", "grad")})
    actual = rounded.run(pair_norm.kernel, dtype=torch.bfloat16)
    for one, other in zip(actual, rounded.run(pair_norm.plain), strict=True):
        assert (one.dtype, other.dtype) == (torch.bfloat16, torch.float32)
        close(one.float(), other, 0.02)


@needs_triton
@pytest.mark.parametrize("relu", [False, True])
def test_a_nan_stays_in_its_graph_and_column(relu):
    case = drawn(8, (6, 9), (20, 30))
    case.h[case.edges.edge_index[0, 3], 0], case.weight[5, 0] = 1e37, 1e3  # their product is infinite
    case.weight[:5, [0, 5]] = case.weight[6:, [0, 5]] = case.weight[5, 5] = 0
    nan = torch.zeros(50, 8, dtype=torch.bool, device=DEVICE)
    nan[:20, 5] = True
    for form in (pair_norm.kernel, pair_norm.plain):
        out, back, _ = case.run(form, relu)
        assert torch.equal(out.isnan(), nan)
        assert torch.equal(back.isfinite().all(1), torch.arange(15, device=DEVICE) >= 5)  # node 5 has no edge


@needs_triton
def test_values_far_from_0_keep_their_digits():
    case = drawn(6, mean=10.0)
    case.weight.abs_()
    exact = case.run(pair_norm.plain, dtype=torch.double)
    raw = pair_linear.plain(case.h, case.weight, None, case.edges)[:20]
    assert ((raw.mean(0) / raw.std(0)) > 30).all()
    for one, other in zip(case.run(pair_norm.kernel), exact, strict=True):
        close(one, other, 1e-4)


@needs_triton
def test_edges_that_are_not_grouped_and_batches_without_edges_take_the_plain_form():
    case, empty = drawn(6), drawn(6, (3, 2), (0, 0))
    case.weight.requires_grad_()
    plain, ungrouped = pair_norm.plain(*case[2:4], *case[:2]), Edges(case.edges.edge_index)
    with use_kernels(True):
        outs = [pair_norm(*case[2:4], edges, case.segments) for edges in (case.edges, ungrouped)]
        no_rows = pair_norm(*empty[2:4], *empty[:2])
    for out, name in zip(outs, ("_PairNorm", "_SegmentNorm"), strict=True):
        close(out, plain)
        assert type(out.grad_fn).__name__.startswith(name)
    assert no_rows.shape == (0, 6)
