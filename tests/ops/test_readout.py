import pytest
import torch

from outland.graphs import PackedGraphs
from outland.ops import Segments, attention_pool, logsumexp_pool, max_pool
from outland.training.capture import CapturedProgram, GraphCapture
from tests.conftest import odd_graphs, whole
from tests.ops.cases import DEVICE, close, needs_triton

SIZES = (3, 0, 5, 1, 20)
POOLS = (max_pool, logsumexp_pool, attention_pool)


def rows(width, padding=4, dtype=torch.float32, device=DEVICE):
    """Random rows of some graphs, one without any, and padding; the third graph's rows are equal in pairs."""
    sizes = torch.tensor(SIZES)
    batch = torch.cat([torch.arange(len(sizes)).repeat_interleave(sizes), torch.full((padding,), len(sizes))])
    ptr = torch.tensor([0, *SIZES, padding]).cumsum(0)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(len(batch), width, generator=generator, dtype=dtype)
    values[4], values[6] = values[3], values[5]
    weight = torch.rand(len(batch), generator=generator, dtype=dtype)
    weight[[0, 5, 8, 12]] = 0  # the graph of one row is left out whole
    segments = Segments(batch.to(device), ptr.to(device), sizes.to(device), padded=True)
    return values.to(device), segments, weight.to(device)


def parameters(op, width, dtype=torch.float32, device=DEVICE):
    if op is max_pool:
        return ()
    if op is logsumexp_pool:
        return (torch.tensor(0.7, dtype=dtype, device=device),)
    return (torch.linspace(-1, 1, width, dtype=dtype, device=device),)


def one_by_one(op, values, segments, parameters, weight):
    """The same, graph by graph, from the formulas."""
    out = []
    for graph in range(len(segments.sizes)):
        there = segments.batch == graph
        w = torch.ones(len(values), dtype=values.dtype) if weight is None else weight
        z, w = values[there & (w > 0)], w[there & (w > 0)]
        if not len(z):
            out.append(torch.zeros(values.shape[1], dtype=values.dtype))
        elif op is max_pool:
            out.append(z.amax(0))
        elif op is logsumexp_pool:
            out.append(parameters[0] * (w[:, None].log() + z / parameters[0]).logsumexp(0))
        else:
            out.append((w.log() + z @ parameters[0]).softmax(0) @ z)
    return torch.stack(out)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("op", POOLS, ids=lambda op: op.__name__)
def test_plain_forms_are_the_formulas(op, weighted):
    values, segments, weight = rows(6, dtype=torch.double, device="cpu")
    weight = weight if weighted else None
    given = parameters(op, 6, torch.double, "cpu")
    expected = one_by_one(op, values, segments, given, weight)
    assert torch.allclose(op.plain(values, segments, *given, weight), expected, atol=1e-12)
    moved = torch.where(segments.batch[:, None] == len(SIZES), 1e6, values)  # padding
    if weighted:
        moved = torch.where(weight[:, None] == 0, 1e3, moved)
    assert torch.allclose(op.plain(moved, segments, *given, weight), expected, atol=1e-12)


@pytest.mark.parametrize("op", POOLS, ids=lambda op: op.__name__)
def test_gradients_are_those_of_finite_differences(op):
    values, segments, weight = rows(5, dtype=torch.double, device="cpu")
    values, weight = values + 1e-3 * torch.arange(len(values))[:, None], weight + 0.1
    given = [value.requires_grad_() for value in (values, *parameters(op, 5, torch.double, "cpu"))]
    weight.requires_grad_(op is not max_pool)
    forward = lambda values, *rest: op.plain(values, segments, *rest)  # noqa: E731
    assert torch.autograd.gradcheck(forward, (*given, weight))


@pytest.mark.parametrize("form", ["plain", pytest.param("kernel", marks=needs_triton)])
@pytest.mark.parametrize("op", POOLS, ids=lambda op: op.__name__)
@pytest.mark.parametrize("broken", [[1], [0, 1, 2], [8]], ids=["a row", "all rows", "the only row"])
def test_nan_reaches_the_result(op, form, broken):
    """Else a network that has broken down would look whole."""
    values, segments, _ = rows(6, device="cpu" if form == "plain" else DEVICE)
    values[broken, 2] = torch.nan
    given = parameters(op, 6, device=values.device)
    out = (op.plain if form == "plain" else op)(values, segments, *given)
    graph = int(segments.batch[broken[0]])
    assert out[graph, 2].isnan()
    others = [index for index in range(len(SIZES)) if index != graph]
    assert out[others].isfinite().all()


def test_equal_rows_share_the_gradient_of_a_maximum():
    values = torch.tensor([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0], [5.0, 5.0]], dtype=torch.double, requires_grad=True)
    batch, sizes = torch.tensor([0, 0, 0, 1]), torch.tensor([3])
    out = max_pool(values, Segments(batch, torch.tensor([0, 3, 4]), sizes, padded=True))
    assert out.tolist() == [[1.0, 2.0]]
    out.backward(torch.tensor([[4.0, 6.0]], dtype=torch.double))
    assert values.grad.tolist() == [[2, 0], [2, 3], [0, 3], [0, 0]]


@pytest.mark.parametrize("op", POOLS, ids=lambda op: op.__name__)
def test_padded_batches_give_what_exact_ones_give(op):
    graphs = PackedGraphs.from_data_list(odd_graphs())
    exact, padded = whole(graphs), whole(graphs, "padded")
    values = torch.randn(padded.num_nodes, 4, dtype=torch.double)
    given = parameters(op, 4, torch.double, "cpu")
    expected = op(values[: exact.num_nodes], exact.node_segments, *given)
    assert torch.allclose(op(values, padded.node_segments, *given)[: len(graphs)], expected, atol=1e-12)


@needs_triton
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("width", [1, 20, 140, 600])
@pytest.mark.parametrize("op", POOLS, ids=lambda op: op.__name__)
def test_kernels_equal_the_plain_forms(op, width, weighted):
    values, segments, weight = rows(width)
    grad = torch.randn(len(SIZES), width, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    sides = []
    for form in (op.kernel, op.plain):
        inputs = [value.clone().requires_grad_() for value in (values, *parameters(op, width))]
        if weighted:
            inputs.append(weight.clone().requires_grad_(op is not max_pool))
        out = form(inputs[0], segments, *inputs[1:])
        sides.append((out, *torch.autograd.grad(out, [value for value in inputs if value.requires_grad], grad)))
    for actual, expected in zip(*sides, strict=True):
        assert actual.dtype == expected.dtype
        close(actual, expected)


@needs_triton
@pytest.mark.parametrize("op", POOLS, ids=lambda op: op.__name__)
def test_kernels_of_half_precision_are_as_close_as_it_is(op):
    values, segments, weight = rows(20)
    half = values.to(torch.bfloat16).requires_grad_()
    out = op.kernel(half, segments, *parameters(op, 20), weight)
    assert out.dtype == torch.bfloat16
    close(out.float(), op.plain(half.detach().float(), segments, *parameters(op, 20), weight), 2**-6)
    out.backward(torch.ones_like(out))
    assert half.grad.dtype == torch.bfloat16
    assert half.grad.isfinite().all()


@needs_triton
@pytest.mark.parametrize("op", POOLS, ids=lambda op: op.__name__)
def test_a_captured_readout_follows_its_inputs(op):
    values, segments, weight = rows(300)
    values, given, results = values.requires_grad_(), parameters(op, 300), []

    def program():
        out = op.kernel(values, segments, *given, weight)
        results[:] = [out, *torch.autograd.grad(out.square().sum(), [values])]

    captured = CapturedProgram(program, GraphCapture(DEVICE))
    captured()
    with torch.no_grad():
        values.mul_(-2)
        weight[:3] = 1
    captured()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    replayed = [tensor.clone() for tensor in results]
    program()
    for actual, expected in zip(replayed, results, strict=True):
        assert torch.equal(actual, expected)
