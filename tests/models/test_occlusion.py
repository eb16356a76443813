"""Graphs with some of their nodes hidden."""

import numpy as np
import pytest
import torch

from outland.chem.descriptors import bit_atoms, fingerprint
from outland.chem.featurizer import parse
from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.graphs import Batches, PackedGraphs
from outland.models import occlusion
from outland.models.occlusion import Occlusion
from outland.nn import Encoder
from tests.conftest import odd_graphs
from tests.models.cases import SMALL, bbbp

SMILES = ["CC(=O)Nc1ccccc1", "C", "OCCN"]


@pytest.fixture(scope="module")
def model():
    return GraphClassifier("erm", epochs=1, backbone=SMALL).fit(*bbbp()).model_


@pytest.fixture(scope="module")
def graphs():
    return read_inputs(SMILES).graphs


def test_nothing_hidden_is_the_calibrated_logit(model, graphs):
    probability = torch.from_numpy(model.probabilities(model.predict(graphs))[:, 1])
    result = Occlusion(model, graphs)
    assert torch.allclose(result.whole, probability.logit(), atol=1e-5)
    assert torch.allclose(result.scores([(2, ()), (0, ())]), result.whole[[2, 0]], atol=1e-6)
    assert torch.allclose(Occlusion(model, graphs, towards="0").whole, -result.whole)


def test_a_hidden_node_is_the_average_training_node(model, graphs):
    """As an average input by hand gives it; the model is left as it was."""
    (encoder,) = [module for module in model.method.modules() if isinstance(module, Encoder)]
    before = model.predict(graphs).outputs
    hidden = Occlusion(model, graphs).scores([(2, (0, 3))])
    batch = next(iter(Batches(graphs, torch.tensor([2]), 1)))
    with torch.inference_mode():
        states = encoder.embed(batch)
        states[[0, 3]] = encoder.features(model.reference.x).mean(0)
        logits = model.method.classifier(batch, states=states)
    assert torch.allclose(model.calibration.logits(logits.double())[0], hidden, atol=1e-5)
    assert torch.equal(model.predict(graphs).outputs, before)


def test_blocks_change_nothing(model, graphs, monkeypatch):
    hidden = [(graph, (0,)) for graph in (0, 1, 2, 0, 2)]
    together = Occlusion(model, graphs).scores(hidden)
    monkeypatch.setattr(occlusion, "_MOST_NODES", 5)
    assert torch.allclose(Occlusion(model, graphs).scores(hidden), together, atol=1e-6)


def test_bits_of_hidden_atoms_are_off_unless_others_set_them(model, graphs):
    molecules = [parse(text) for text in SMILES]
    copies = Occlusion(model, graphs, molecules)._copies([(0, ()), (0, (1, 2)), (2, (0, 1, 2, 3)), (0, (9,))])
    bits = np.unpackbits(copies.extra["fingerprint"].numpy(), axis=1).astype(bool)
    whole = np.unpackbits(fingerprint(molecules[0])).astype(bool)
    assert np.array_equal(bits[0], whole)
    assert not (bits[1] & ~whole).any()
    assert 0 < bits[1].sum() < bits[0].sum()
    assert not bits[2].any()
    environments = bit_atoms(molecules[0])
    assert set(np.flatnonzero(bits[3])) == {bit for bit, atoms in environments if 9 not in atoms}
    (alone,) = [bit for bit, atoms in environments if atoms == (9,)]
    assert bits[3][alone]  # an aromatic CH, as four other atoms are


def test_units_and_classes(graphs):
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles, [10.0 + 3 * label for label in labels]).model_
    assert torch.allclose(Occlusion(model, graphs).whole, torch.from_numpy(model.numbers(model.predict(graphs))))
    with pytest.raises(OutlandError, match="without --towards"):
        Occlusion(model, graphs, towards="1")


def test_of_several_classes_the_one_called():
    data = odd_graphs() * 4
    model = (
        GraphClassifier("erm", domain="random", epochs=1, backbone=SMALL)
        .fit(data, [i % 3 for i in range(len(data))])
        .model_
    )
    graphs = PackedGraphs.from_data_list(odd_graphs())
    probabilities = torch.from_numpy(model.probabilities(model.predict(graphs)))
    assert torch.allclose(Occlusion(model, graphs).whole, probabilities.amax(1).logit(), atol=1e-5)
    assert torch.allclose(Occlusion(model, graphs, towards="2").whole, probabilities[:, 2].logit(), atol=1e-5)
    with pytest.raises(OutlandError, match="class"):
        Occlusion(model, graphs, towards="7")
