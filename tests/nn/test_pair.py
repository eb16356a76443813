import torch
from torch.nn.functional import linear

from outland.nn import PairLinear
from tests.conftest import whole


def test_it_is_a_linear_layer_on_joined_ends(any_set):
    batch = whole(any_set[1])
    layer, z = PairLinear(6, 2), torch.randn(batch.num_nodes, 6)
    joined = torch.cat([z[batch.edge_index[0]], z[batch.edge_index[1]]], dim=1)
    assert torch.allclose(layer(z, batch), linear(joined, layer.weight, layer.bias), atol=1e-6)
