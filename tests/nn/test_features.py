import torch

from outland.graphs import Features
from outland.nn.features import FeatureEncoder


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
