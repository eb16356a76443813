import pytest
import torch
from torch.nn.functional import linear

from outland.graphs import Features, Schema, Task
from outland.methods.aia import AIA
from outland.nn import BackboneSettings, Mask, Masker
from tests.conftest import whole

ATOMS = Features(9, (119, 4, 11, 12, 9, 5, 8, 2, 2))
BONDS = Features(3, (5, 6, 2))
CLASSES = Task("multiclass", 3, "accuracy")
MOLECULE = Schema(ATOMS, Task("binary", 1, "rocauc"), BONDS)


def test_edge_head_equals_the_linear_layer_on_joined_ends(any_set):
    schema, graphs = any_set
    torch.manual_seed(0)
    masker, batch = Masker(BackboneSettings(width=8, layers=2), schema).eval(), whole(graphs)
    mask = masker(batch)
    z = masker.encoder(batch)
    joined = torch.cat([z[batch.edge_index[0]], z[batch.edge_index[1]]], dim=1)
    assert torch.allclose(
        mask.edge, linear(joined, masker.edge_head.weight, masker.edge_head.bias).squeeze(1).sigmoid(), atol=1e-6
    )
    assert torch.allclose(mask.node, masker.node_head(z).squeeze(1).sigmoid(), atol=1e-6)
    deep = Masker(BackboneSettings(width=8, layers=2), schema, "mlp").eval()
    z = deep.encoder(batch)
    joined = torch.cat([z[batch.edge_index[0]], z[batch.edge_index[1]]], dim=1)
    expected = deep.edge_last(linear(joined, deep.edge_head.weight, deep.edge_head.bias).relu()).squeeze(1).sigmoid()
    assert torch.allclose(deep(batch).edge, expected, atol=1e-6)


def test_symmetric_masks_agree_in_both_directions(any_set):
    _, graphs = any_set
    batch = whole(graphs)
    mask = Mask(torch.rand(batch.num_nodes), torch.rand(batch.num_edges)).symmetric(batch)
    assert torch.equal(mask.edge, mask.edge[batch.reverse])


def test_merge():
    stable, adversarial = Mask(torch.tensor([0.3]), torch.tensor([1.0])), Mask(torch.tensor([0.5]), torch.tensor([0.2]))
    merged = stable.merge(adversarial)
    assert merged.node.item() == pytest.approx(0.65, abs=1e-6)
    assert merged.edge.item() == 1.0


@pytest.mark.parametrize(
    ("schema", "settings", "total", "inference"),
    [
        (Schema(Features(1), CLASSES), {"width": 300}, 2_366_115, 1_819_211),
        (Schema(Features(3), Task("multiclass", 10, "accuracy")), {"width": 300}, 2_371_822, 1_823_718),
        (MOLECULE, {"width": 64, "residual": True}, 175_821, 129_033),
        (MOLECULE, {"width": 32, "residual": True}, 55_149, 39_945),
        (MOLECULE, {"width": 128, "residual": True, "head": "mlp"}, 647_437, 488_329),
    ],
)
def test_released_aia_has_the_published_number_of_parameters(schema, settings, total, inference):
    counts = AIA(schema, BackboneSettings(**settings), AIA.released()).parameter_counts()
    assert counts["total"] == total
    assert counts["inference"] == inference
