import math
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from outland.graphs import Features
from outland.nn import BatchNorm, Dropout, PairLinear, synchronize_batch_norm
from outland.nn.layers import FeatureEncoder, LinearBeforeNorm, fold_batch_norm, linear_norm
from tests.conftest import whole


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_the_right_share_is_dropped_and_the_rest_scaled(p):
    drop = Dropout(p)
    drop.generator = torch.Generator().manual_seed(0)
    x = torch.full((1001, 303), 2.0, requires_grad=True)
    y = drop(x)
    keep = y != 0
    assert abs(keep.float().mean().item() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / x.numel())
    assert torch.allclose(y[keep], torch.tensor(2 / (1 - p)))
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad != 0, keep)
    assert torch.allclose(grad[keep], torch.tensor(1 / (1 - p)))
    # no row, column or diagonal is favoured: the eight entries of a word are as independent as any
    for first in range(8):
        share = keep.flatten()[first::8].float().mean().item()
        assert abs(share - (1 - p)) < 4 * math.sqrt(8 * p * (1 - p) / x.numel())
    together = torch.corrcoef(keep.flatten()[: 8 * (x.numel() // 8)].view(-1, 8).float().T)
    assert (together - torch.eye(8)).abs().max() < 0.02


def test_the_generator_decides_and_nothing_happens_at_inference():
    drop, x = Dropout(0.5), torch.randn(7, 5)
    outs = []
    for seed in (1, 1, 2):
        drop.generator = torch.Generator().manual_seed(seed)
        torch.rand(3)
        outs.append(drop(x))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    drop.eval()
    assert drop(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()
    assert Dropout(1 - 1e-9)(torch.ones(100, 100)).count_nonzero() < 10  # one in 65536 is the least that stays
    assert Dropout(0.5)(x[:0]).shape == (0, 5)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("training", [True, False])
def test_a_relu_before_it_is_the_same_as_one_within(p, training):
    x = torch.randn(40, 30, generator=torch.Generator().manual_seed(5))
    x[:, :5] = 0  # where a ReLU has no gradient
    grad, sides = torch.randn(40, 30, generator=torch.Generator().manual_seed(6)), []
    for within in (True, False):
        layer, given = Dropout(p).train(training), x.clone().requires_grad_()
        layer.generator = torch.Generator().manual_seed(7)
        out = layer(given, relu=True) if within else layer(given.relu())
        sides.append((out, *torch.autograd.grad(out, given, grad)))
    for actual, expected in zip(*sides, strict=True):
        assert torch.equal(actual, expected)


def test_masked_rows_do_not_count():
    torch.manual_seed(0)
    ours, theirs = BatchNorm(3), torch.nn.BatchNorm1d(3)
    x = torch.randn(10, 3) * 2 + 1
    mask = torch.tensor([True] * 7 + [False] * 3)
    for _ in range(3):
        expected, actual = theirs(x[:7]), ours(x, mask)
        assert torch.allclose(actual[:7], expected, atol=1e-6)
    for name, buffer in theirs.named_buffers():
        assert torch.allclose(getattr(ours, name).double(), buffer.double(), atol=1e-6)
    assert torch.equal(ours.eval()(x)[:7], ours(x[:7]))


def test_one_row_has_no_variance():
    norm = BatchNorm(2)
    assert norm(torch.tensor([[3.0, -1.0]])).tolist() == [[0.0, 0.0]]
    assert torch.allclose(norm.running_mean, torch.tensor([0.3, -0.1]))
    assert norm(torch.zeros(0, 2)).shape == (0, 2)


def test_the_bias_before_a_norm_has_no_gradient_while_training():
    torch.manual_seed(0)
    x = torch.randn(20, 4, dtype=torch.double)
    before, plain, after = LinearBeforeNorm(4, 3).double(), nn.Linear(4, 3).double(), BatchNorm(3).double()
    plain.load_state_dict(before.state_dict())
    target = torch.randn(20, 3, dtype=torch.double)
    grads = []
    for layer in (before, plain):
        loss = ((after(layer(x)) - target) ** 2).sum()
        grads.append(torch.autograd.grad(loss, [layer.weight, layer.bias], allow_unused=True))
    assert torch.allclose(grads[0][0], grads[1][0], atol=1e-12)
    assert grads[0][1] is None
    assert grads[1][1].abs().max() < 1e-12
    before.eval()
    assert torch.equal(before(x), plain(x))
    assert torch.autograd.grad(before(x).sum(), before.bias)[0].tolist() == pytest.approx([20] * 3)


def test_without_a_momentum_every_batch_counts_alike_a_single_row_too():
    layer = BatchNorm(2, momentum=None).train()
    for rows in ([[1.0, 2.0], [3.0, 6.0]], [[8.0, 1.0]]):
        layer(torch.tensor(rows))
    assert layer.running_mean.tolist() == [5.0, 2.5]
    assert layer.running_var.tolist() == [1.0, 4.0]  # of one row it is 0
    assert int(layer.num_batches_tracked) == 2


@pytest.mark.parametrize("relu", [False, True])
def test_a_frozen_norm_is_folded_into_the_layer_before_it(relu, monkeypatch):
    torch.manual_seed(2)
    layer, after, x = LinearBeforeNorm(5, 4).double().eval(), BatchNorm(4).double().eval(), torch.randn(9, 5).double()
    with torch.no_grad():
        for value in (*after.parameters(), after.running_mean):
            value.normal_()
        after.running_var.uniform_(0.1, 3)
    expected = after(layer(x), relu=relu)
    assert expected.requires_grad
    with torch.no_grad():
        monkeypatch.setattr(nn.functional, "batch_norm", None)  # it is not used
        actual = linear_norm(layer, after, x, relu=relu)
    assert torch.allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("relu", [False, True])
def test_a_still_norm_hands_the_slope_on_to_what_comes_before(relu):
    torch.manual_seed(3)
    layer, after = LinearBeforeNorm(5, 4).double().eval(), BatchNorm(4).double().eval()
    with torch.no_grad():
        for value in (*after.parameters(), after.running_mean):
            value.normal_()
    layer.requires_grad_(False), after.requires_grad_(False)
    x, grad = torch.randn(9, 5).double().requires_grad_(), torch.randn(9, 4).double()
    actual = torch.autograd.grad(linear_norm(layer, after, x, relu=relu), x, grad)[0]
    expected = torch.autograd.grad(after(layer(x), relu=relu), x, grad)[0]
    assert torch.allclose(actual, expected, atol=1e-12)
    assert fold_batch_norm(layer, after, None) is not None
    for part in (layer.bias, after.weight):  # a parameter that trains needs a gradient
        part.requires_grad_()
        assert fold_batch_norm(layer, after, None) is None
        part.requires_grad_(False)
    assert fold_batch_norm(layer, after, Dropout(0.5)) is None
    assert fold_batch_norm(layer, after, Dropout(0.5).eval()) is not None
    assert fold_batch_norm(layer, after.train(), None) is None


@pytest.mark.parametrize(("relu", "p"), [(False, None), (True, None), (True, 0.0)])
@pytest.mark.parametrize("momentum", [0.0, 0.1, 1.0, None])
@pytest.mark.parametrize("rows", [0, 1, 2, 9])
def test_the_bias_is_left_out_before_a_norm_and_added_to_the_running_mean(relu, p, momentum, rows):
    torch.manual_seed(4)
    layer, after = LinearBeforeNorm(5, 4).double(), BatchNorm(4, momentum=momentum).double()
    with torch.no_grad():
        layer.bias.normal_(std=3)
        after.bias.normal_()
    twin = deepcopy(after)
    dropout = None if p is None else Dropout(p)
    for _ in range(3):
        x, grad = torch.randn(rows, 5).double(), torch.randn(rows, 4).double()
        outs = [linear_norm(layer, after, x, None, relu, dropout), twin(layer(x), None, relu, dropout)]
        assert torch.allclose(*outs, atol=1e-10)
        if rows:
            asked = ([layer.weight, *after.parameters()], [layer.weight, *twin.parameters()])
            grads = [torch.autograd.grad(out, parts, grad) for out, parts in zip(outs, asked, strict=True)]
            assert all(torch.allclose(one, other, atol=1e-10) for one, other in zip(*grads, strict=True))
    for ours, theirs in zip(after.buffers(), twin.buffers(), strict=True):
        assert torch.allclose(ours.double(), theirs.double(), atol=1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_half_precision_is_left_to_the_layers_themselves(training):
    torch.manual_seed(5)
    layer, after, x = LinearBeforeNorm(40, 30).train(training), BatchNorm(30).train(training), torch.randn(50, 40)
    twin = deepcopy(after)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        actual, expected = linear_norm(layer, after, x), twin(layer(x))
    assert torch.equal(actual, expected)
    assert all(torch.equal(one, other) for one, other in zip(after.buffers(), twin.buffers(), strict=True))


def test_two_passes_through_one_norm_can_both_go_back():
    layer, after = LinearBeforeNorm(3, 2), BatchNorm(2)
    one, other = (linear_norm(layer, after, torch.randn(6, 3), relu=True).sum() for _ in range(2))
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(one + other, [layer.weight, *after.parameters()]))


def test_norm_then_relu_then_dropout():
    layer, drop = BatchNorm(4), Dropout(0.5)
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    out = layer(x, None, relu=True, dropout=drop)
    expected = torch.nn.functional.batch_norm(x, None, None, training=True).relu() * 2
    assert torch.where(out == 0, expected, out).allclose(expected, atol=1e-6)
    assert (out == 0).sum() > (expected == 0).sum()


def test_synchronized_norms_of_one_process_are_plain_ones():
    net = nn.Sequential(BatchNorm(3), nn.Sequential(BatchNorm(3)))
    twin = deepcopy(net)
    synchronize_batch_norm(net)
    assert [layer.synchronized for layer in net.modules() if isinstance(layer, BatchNorm)] == [True, True]
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(net(x), twin(x), atol=1e-6)
    for ours, expected in zip(net.buffers(), twin.buffers(), strict=True):
        assert torch.allclose(ours.double(), expected.double(), atol=1e-6)
    assert torch.allclose(net.eval()(x), twin.eval()(x), atol=1e-6)


def test_categories_become_the_sum_of_their_embeddings():
    encoder = FeatureEncoder(Features(2, (5, 3)), 4)
    values = torch.tensor([[0, 2], [4, 0], [1, 1]], dtype=torch.uint8)
    by_column = encoder.table.weight.split([5, 3])
    expected = torch.stack([by_column[0][first] + by_column[1][second] for first, second in values.tolist()])
    assert torch.allclose(encoder(values), expected)


def test_real_numbers_are_projected_or_passed_on():
    x = torch.randn(6, 3)
    projected, plain = FeatureEncoder(Features(3), 4), FeatureEncoder(Features(3), None)
    assert torch.equal(projected(x), projected.linear(x))
    assert projected.out_width == 4
    assert plain(x) is x
    assert plain.out_width == 3


def test_it_is_a_linear_layer_on_joined_ends(any_set):
    batch = whole(any_set[1])
    layer, z = PairLinear(6, 2), torch.randn(batch.num_nodes, 6)
    joined = torch.cat([z[batch.edge_index[0]], z[batch.edge_index[1]]], dim=1)
    assert torch.allclose(layer(z, batch), linear(joined, layer.weight, layer.bias), atol=1e-6)
