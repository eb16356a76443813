from copy import deepcopy

import pytest
import torch
from torch import nn

from outland import ops
from outland.nn import BatchNorm, Dropout
from outland.nn.layers import LinearBeforeNorm, linear_norm
from outland.ops import DropoutSeeds, use_kernels
from outland.ops.linear import MOST_ROWS, _GPULinear, has_many_rows, is_small
from tests.ops.cases import DEVICE, close, needs_triton

WITHIN = 4e-3 if DEVICE.type == "cuda" else 5e-5  # TF32 has ten bits


@pytest.fixture
def launched(monkeypatch):
    """As on a GPU where TF32 is allowed; the modes, training or not, in which the kernel was launched."""
    modes, kernel = [], ops.linear_norm.kernel
    monkeypatch.setattr(ops.linear_norm, "kernel", lambda *args: modes.append(args[4].training) or kernel(*args))
    monkeypatch.setattr("outland.ops.linear.has_tf32", lambda device: True)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    with use_kernels(True):
        yield modes


def parts(rows, inputs, outputs, masked):
    generator = torch.Generator().manual_seed(rows)
    linear, norm = LinearBeforeNorm(inputs, outputs), BatchNorm(outputs)
    with torch.no_grad():
        for value in (*linear.parameters(), *norm.parameters(), norm.running_mean, norm.running_var):
            value.copy_(torch.rand(value.shape, generator=generator) + 0.2)
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator))
    x, grad = torch.randn(rows, inputs, generator=generator), torch.randn(rows, outputs, generator=generator)
    mask = (torch.rand(rows, generator=generator) < 0.7) if masked else None
    if mask is not None:
        mask[0] = True
        grad = grad * mask[:, None]
    moved = (None if value is None else value.to(DEVICE) for value in (x, grad, mask))
    return linear.to(DEVICE), norm.to(DEVICE), *moved


@needs_triton
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 16, 20), (65, 40, 100), (130, 100, 36), (64, 64, 400)])
def test_the_kernel_equals_the_plain_form(rows, inputs, outputs, frozen, masked, launched, monkeypatch):
    sides = []
    for kernels in (False, True):
        linear, norm, x, grad, mask = parts(rows, inputs, outputs, masked)
        linear.weight.requires_grad_(not frozen)
        if kernels:
            monkeypatch.setattr("outland.ops.triton.norm_kernels.norm_moments", None)  # they are at hand
        x.requires_grad_()
        with use_kernels(kernels):
            out = linear_norm(linear, norm, x, mask)  # a ReLU would make steps of what TF32 rounds
        asked = [x, norm.weight, norm.bias, *([] if frozen else [linear.weight])]
        real = slice(None) if mask is None else mask
        sides.append((out[real], *torch.autograd.grad(out, asked, grad), norm.running_mean, norm.running_var))
    assert launched == [True]
    for expected, actual in zip(*sides, strict=True):
        close(actual, expected, WITHIN)


@needs_triton
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(513, 20, 36), (700, 100, 150), (1300, 36, 20)])
def test_many_rows_equal_the_plain_form_to_bits_of_bf16(rows, inputs, outputs, masked, training, monkeypatch):
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32  # Triton's interpreter multiplies no bf16
    monkeypatch.setattr("outland.ops.triton.many_rows.DTYPE", dtype)
    monkeypatch.setattr("outland.ops.triton.many_rows.PROGRAMS", 3)  # so that a program has several tiles
    if DEVICE.type == "cpu":  # the interpreter takes as long for a large tile as for a small one
        monkeypatch.setattr("outland.ops.triton.norm.TILE", (256, 64, 1))
    sides = []
    for kernels in (False, True):
        linear, norm, x, grad, mask = parts(rows, inputs, outputs, masked)
        linear.train(training), norm.train(training)
        asked = [x.requires_grad_(), linear.weight]
        if not training:
            norm.requires_grad_(False), linear.bias.requires_grad_(False)
        with use_kernels(kernels), torch.autocast(DEVICE.type, torch.bfloat16, enabled=kernels):
            assert has_many_rows(x) is kernels
            out = linear_norm(linear, norm, x, mask)
        assert out.dtype == (dtype if kernels else torch.float32)
        real = slice(None) if mask is None else mask
        grads = torch.autograd.grad(out, [*asked, *norm.parameters()] if training else asked, grad.to(out.dtype))
        sides.append((out[real].float(), *grads, norm.running_mean, norm.running_var))
    for expected, actual in zip(*sides, strict=True):
        assert actual.dtype == torch.float32
        close(actual, expected, 2e-2 if dtype == torch.bfloat16 else 5e-5)


@pytest.mark.parametrize(("rows", "width", "taken"), [(512, 16, True), (511, 16, False), (512, 15, False)])
def test_which_rows_are_many(rows, width, taken):
    x = torch.zeros(rows, width)
    assert has_many_rows(x) is False
    with torch.autocast("cpu", torch.bfloat16):
        assert has_many_rows(x) is taken
    with torch.autocast("cpu", torch.float16):
        assert has_many_rows(x) is False


@needs_triton
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@torch.no_grad()
def test_a_frozen_norm_is_applied_at_once(masked, relu, launched, monkeypatch):
    linear, norm, x, _, mask = parts(150, 40, 70, masked)
    linear.eval(), norm.eval()
    norm.running_var[3] = 0  # nothing but ε is left there
    norm.running_mean[3] = linear(x).mean(0)[3]
    with monkeypatch.context() as patched:
        patched.setattr(ops.batch_norm, "kernel", None)  # it is not used
        actual = linear_norm(linear, norm, x, mask, relu)
    assert launched == [False]
    expected = nn.functional.batch_norm(linear(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
    expected = expected.relu() if relu else expected
    close(actual, expected if mask is None else expected * mask[:, None], WITHIN)


@needs_triton
def test_dropout_acts_whichever_form_is_taken(launched):
    linear, norm, x, _, _ = parts(200, 40, 70, False)
    dropout = Dropout(0.25)
    dropout.seeds = DropoutSeeds(torch.Generator().manual_seed(1))
    dropout.seeds.drawn = torch.tensor([77], device=DEVICE)
    for training, modes in ((True, [True]), (False, [True])):  # with a frozen norm this kernel does not drop
        linear.train(training), norm.train(training)
        with torch.no_grad():
            share = (linear_norm(linear, norm, x, None, False, dropout) == 0).float().mean().item()
        assert share == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / (200 * 70)) ** 0.5)
        assert launched == modes


@needs_triton
@pytest.mark.parametrize("moving", ["x", "linear.weight", "linear.bias", "norm.weight", "norm.bias"])
def test_every_tensor_that_asks_has_a_gradient_through_a_frozen_norm(moving, launched):
    linear, norm, x, grad, _ = parts(20, 16, 8, False)
    linear.eval().requires_grad_(False), norm.eval().requires_grad_(False)
    named = {"x": x, "linear.weight": linear.weight, "linear.bias": linear.bias}
    asked = (named | {"norm.weight": norm.weight, "norm.bias": norm.bias})[moving].requires_grad_()
    (actual,) = torch.autograd.grad(linear_norm(linear, norm, x), asked, grad)
    plain = nn.functional.batch_norm(linear(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
    close(actual, torch.autograd.grad(plain, asked, grad)[0], WITHIN)


@needs_triton
@pytest.mark.parametrize(("synchronized", "training"), [(False, True), (False, False), (True, True)])
def test_a_norm_without_a_momentum_or_of_several_processes_has_no_kernel(synchronized, training, launched):
    linear, _, x, _, _ = parts(20, 16, 8, False)
    norm = BatchNorm(8, momentum=0.1 if synchronized else None).to(DEVICE).train(training)
    norm.synchronized = synchronized
    linear.train(training)
    twin = deepcopy(norm)
    with torch.no_grad():
        close(linear_norm(linear, norm, x), twin(linear(x)), WITHIN)
    assert launched == []
    for ours, expected in zip(norm.buffers(), twin.buffers(), strict=True):
        close(ours.double(), expected.double(), WITHIN)


@needs_triton
@pytest.mark.parametrize("training", [True, False])
def test_nan_stays_nan(training, launched):
    linear, norm, x, _, _ = parts(70, 16, 8, False)
    linear.train(training), norm.train(training)
    with torch.no_grad():
        linear.weight[2, 5] = torch.nan
        out = linear_norm(linear, norm, x, relu=True)
    assert launched == [training]
    assert out[:, 2].isnan().all()
    assert out[:, [0, 1, 3, 4, 5, 6, 7]].isfinite().all()


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "precision", "taken"),
    [
        (2048, 16, torch.float32, "high", True),
        (2049, 16, torch.float32, "high", False),
        (100, 15, torch.float32, "high", False),
        (100, 16, torch.bfloat16, "high", False),
        (100, 16, torch.float32, "highest", False),
        (0, 16, torch.float32, "high", False),
    ],
)
def test_which_products_are_small(rows, width, dtype, precision, taken, monkeypatch):
    monkeypatch.setattr("outland.ops.linear.has_tf32", lambda device: True)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    x = torch.zeros(rows, width, dtype=dtype)
    assert is_small(x) is taken
    with torch.autocast("cpu", torch.bfloat16):
        assert is_small(x) is False
    monkeypatch.setattr("outland.ops.linear.has_tf32", lambda device: False)
    assert is_small(x) is False


@pytest.mark.parametrize("inputs", [1, 2, 40])
def test_products_of_a_gpu_have_the_gradients_of_the_plain_form(inputs):
    linear, _, x, grad, _ = parts(90, inputs, 70, False)
    asked, bias = [x.requires_grad_(), linear.weight], linear.bias.detach()
    sides = []
    for map_rows in (nn.functional.linear, _GPULinear.apply):
        out = map_rows(x, linear.weight, bias)
        sides.append((out, *torch.autograd.grad(out, asked, grad)))
    for expected, actual in zip(*sides, strict=True):
        close(actual, expected, WITHIN)


@pytest.mark.parametrize(("on_gpu", "training"), [(True, True), (True, False), (False, True)])
def test_which_products_take_the_gradients_of_a_gpu(on_gpu, training, monkeypatch):
    """Those of a GPU, unless the bias needs a gradient, as outside training."""
    monkeypatch.setattr("outland.ops.linear._on_gpu", lambda tensor: on_gpu)
    monkeypatch.setattr("outland.ops.linear._on_cpu", lambda tensor: False)
    linear, norm, x, _, mask = parts(MOST_ROWS + 5, 20, 30, True)
    linear.train(training), norm.train(training)
    assert has_node(linear_norm(linear, norm, x, mask).grad_fn, "_GPULinearBackward") is (on_gpu and training)


def has_node(node, name: str) -> bool:
    """Whether a step of the backward pass is among those before a node."""
    return node is not None and (
        node.name() == name or any(has_node(before, name) for before, _ in node.next_functions)
    )


@pytest.mark.parametrize("inputs", [1, 40])
@pytest.mark.parametrize("relu", [False, True])
@torch.no_grad()
def test_a_gpu_folds_a_frozen_norm_where_nothing_has_a_gradient(inputs, relu, monkeypatch):
    monkeypatch.setattr("outland.ops.linear._on_gpu", lambda tensor: True)
    monkeypatch.setattr("outland.ops.linear._on_cpu", lambda tensor: False)
    monkeypatch.setattr("outland.ops.linear.batch_norm", None)  # it is not used
    linear, norm, x, _, _ = parts(MOST_ROWS + 5, inputs, 70, False)
    linear.eval(), norm.eval()
    actual = linear_norm(linear, norm, x, relu=relu)
    expected = nn.functional.batch_norm(linear(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
    close(actual, expected.relu() if relu else expected, WITHIN)
    x[3] = torch.nan
    assert linear_norm(linear, norm, x, relu=relu).isnan().nonzero()[:, 0].unique().tolist() == [3]
    with torch.enable_grad():
        assert ops.fold_batch_norm(linear.weight.detach(), linear.bias.detach(), norm.state()) is None
