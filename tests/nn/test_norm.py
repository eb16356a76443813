import pytest
import torch
from torch import nn

from outland.nn import BatchNorm
from outland.nn.norm import LinearBeforeNorm, normed


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


def test_the_constant_before_a_norm_has_no_gradient_while_training():
    torch.manual_seed(0)
    x = torch.randn(20, 4, dtype=torch.double)
    before, plain, after = LinearBeforeNorm(4, 3).double(), nn.Linear(4, 3).double(), BatchNorm(3).double()
    plain.load_state_dict(before.state_dict())
    target = torch.randn(20, 3, dtype=torch.double)
    slopes = []
    for layer in (before, plain):
        loss = ((after(layer(x)) - target) ** 2).sum()
        slopes.append(torch.autograd.grad(loss, [layer.weight, layer.bias], allow_unused=True))
    assert torch.allclose(slopes[0][0], slopes[1][0], atol=1e-12)
    assert slopes[0][1] is None
    assert slopes[1][1].abs().max() < 1e-12
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
def test_a_still_norm_and_the_layer_before_it_are_one_map(relu, monkeypatch):
    torch.manual_seed(2)
    layer, after, x = LinearBeforeNorm(5, 4).double().eval(), BatchNorm(4).double().eval(), torch.randn(9, 5).double()
    with torch.no_grad():
        for value in (*after.parameters(), after.running_mean):
            value.normal_()
        after.running_var.uniform_(0.1, 3)
    expected = after(layer(x), relu=relu)
    assert expected.requires_grad
    with torch.no_grad():
        monkeypatch.setattr(BatchNorm, "forward", None)  # nobody asks it
        found = normed(layer, after, x, relu=relu)
    assert torch.allclose(found, expected, atol=1e-12)
