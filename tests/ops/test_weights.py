import pytest
import torch

from outland.ops import Descent, TableLayout, dependence_terms, descend_weights, simplex, use_kernels
from tests.ops.cases import DEVICE, close, needs_triton

LAYOUTS = [
    TableLayout(1, 1, 7),
    TableLayout(1, 1, 300),
    TableLayout(3, 3, 260),
    TableLayout(1, 3, 5, crossed=True),
    TableLayout(4, others=True),
    TableLayout(1, others=True),
]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def on_device(rows, batch, seed=0):
    """Logits, velocity, gradient, weights and which rows are valid."""
    logits, valid = 2 * drawn(rows, seed=seed), torch.arange(rows) % 5 != 1
    weights = simplex(logits, valid)
    state = (logits, drawn(batch, seed=1), 10 * drawn(rows, seed=2), weights, valid)
    return [value.to(DEVICE) for value in state]


@needs_triton
@pytest.mark.parametrize("rows", [1, 33, 160])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_of_the_terms_equals_the_plain_form(layout, rows):
    sums, weights = drawn(sum(layout.sizes(rows))).to(DEVICE), drawn(rows).softmax(0).to(DEVICE)
    close(dependence_terms.kernel(sums, weights, layout), dependence_terms.plain(sums, weights, layout))


@needs_triton
@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (33, 33), (160, 32), (640, 512)])
def test_the_kernel_of_a_step_equals_the_plain_form(rows, batch):
    ours, plain = on_device(rows, batch), on_device(rows, batch)
    before, descent = ours[0].clone(), Descent(0.7, 0.9, 1 / 70)
    close(descend_weights.kernel(*ours, descent), descend_weights.plain(*plain, descent))
    for actual, expected in zip(ours[:2], plain[:2], strict=True):
        close(actual, expected)
    assert torch.equal(ours[0][batch:], before[batch:])
    assert not torch.equal(ours[0][:batch], before[:batch])


@needs_triton
def test_the_kernel_of_a_step_without_valid_rows():
    logits, velocity, gradient, _, valid = on_device(6, 4)
    out = descend_weights.kernel(logits, velocity * 0, gradient, 0 * gradient, valid & False, Descent(1.0, 0.9, 1.0))
    assert (out == 0).all()
    assert torch.equal(logits, on_device(6, 4)[0])


def test_a_step_is_that_of_sgd_with_momentum():
    logits, velocity, gradient, _, valid = (value.cpu() for value in on_device(9, 6))
    logits, velocity, gradient = logits.double(), velocity.double(), gradient.double()
    moving = logits[:6].clone().requires_grad_()
    own, joint = moving[valid[:6]].softmax(0), torch.cat([moving, logits[6:]])[valid].softmax(0)
    (joint @ gradient[valid] / 70 + own.square().sum()).backward()
    speed = 0.9 * velocity + moving.grad
    expected = torch.cat([moving.detach() - 0.7 * speed, logits[6:]])
    weights = descend_weights(
        logits, velocity, gradient, simplex(logits, valid), valid, Descent(lr=0.7, momentum=0.9, strength=1 / 70)
    )
    assert torch.allclose(velocity, speed, atol=1e-14)
    assert torch.allclose(logits, expected, atol=1e-14)
    assert torch.allclose(weights[valid], expected[valid].softmax(0), atol=1e-14)
    assert (weights[~valid] == 0).all()


@pytest.mark.parametrize(
    ("rows", "dtype", "taken"),
    [
        (160, torch.float32, True),
        (160, torch.double, False),
        (2**13, torch.float32, True),
        (2**13 + 1, torch.float32, False),
    ],
)
def test_what_the_kernels_take(rows, dtype, taken, monkeypatch):
    monkeypatch.setattr("outland.ops.dispatch.has_triton", lambda: True)
    for op in (dependence_terms, descend_weights):
        monkeypatch.setattr(op, "kernel", lambda *args: "kernel")
    layout = TableLayout(1, others=True)
    vector = torch.zeros(rows, dtype=dtype)
    with use_kernels(True):
        terms = dependence_terms(torch.zeros(2 * rows, dtype=dtype), vector, layout)
        step = descend_weights(vector, vector, vector, vector, vector.bool(), Descent(1.0, 0.9, 1.0))
    assert (isinstance(terms, str), isinstance(step, str)) == (taken, taken)


def test_simplex():
    valid = torch.tensor([True, False, True, True])
    actual = simplex(torch.tensor([1e4, 7.0, 1e4, -1e4]).double(), valid)
    assert actual.tolist() == [0.5, 0, 0.5, 0]
    assert (simplex(torch.ones(49), torch.ones(49).bool(), 49) == 1).all()
    assert (simplex(torch.ones(4), torch.zeros(4).bool()) == 0).all()
