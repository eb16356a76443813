import torch

from outland.nn import BatchNorm


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
