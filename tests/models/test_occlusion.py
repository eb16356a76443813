"""Graphs with some of their nodes hidden."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from outland.chem.featurizer import parse
from outland.chem.partial_vectors import PartialVectors
from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.graphs import Batches, PackedGraphs
from outland.models import occlusion
from outland.models.occlusion import Occlusion
from outland.models.trees import fit_forest
from outland.nn import Encoder
from tests.conftest import odd_graphs, undirected
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
        logits = model.method.classifier(batch, states=states) + torch.tensor(model.network.offset)
    assert torch.allclose(model.calibration.logits(logits.double())[0], hidden, atol=1e-5)
    assert torch.equal(model.predict(graphs).outputs, before)


@pytest.mark.parametrize(("method", "settings"), [("evidence", {"walks": 6}), ("leci", {})])
def test_every_encoder_of_atoms_sees_the_average_atom(method, settings, graphs):
    """Also one beside the network's own: without it the mark of a hidden atom is a category that is none."""
    model = GraphClassifier(method, method_params=settings, epochs=1, backbone=SMALL).fit(*bbbp()).model_
    before = model.predict(graphs).outputs
    result = Occlusion(model, graphs)
    scores = result.scores([(0, ()), (0, (2,)), (2, (0, 3))])
    assert scores.isfinite().all()
    assert torch.allclose(scores[0], result.whole[0], atol=1e-5)
    assert (scores[1:] - result.whole[[0, 2]]).abs().min() > 1e-6
    assert torch.equal(model.predict(graphs).outputs, before)


def test_blocks_change_nothing(model, graphs, monkeypatch):
    hidden = [(graph, (0,)) for graph in (0, 1, 2, 0, 2)]
    together = Occlusion(model, graphs).scores(hidden)
    monkeypatch.setattr(occlusion, "_MOST_NODES", 5)
    assert torch.allclose(Occlusion(model, graphs).scores(hidden), together, atol=1e-6)


def test_trees_and_networks_are_averaged_with_what_each_loses(model, graphs):
    """A forest reads what is left of the molecule; without molecules it cannot be explained."""
    molecules = [parse(text) for text in SMILES]
    train = read_inputs(bbbp()[0][:60]).graphs
    forest = fit_forest(replace(train, y=torch.tensor(bbbp()[1][:60]).float()[:, None]), model.task, 0, trees=5)
    alone, both = (replace(model, members=members, weights=()) for members in ((forest,), (*model.members, forest)))
    hidden = [(0, (1, 2)), (2, (3,))]
    rest = [PartialVectors(molecules[graph]) for graph, _ in hidden]
    vectors = [(v.fingerprint(nodes), *v.numbers(nodes)) for v, (_, nodes) in zip(rest, hidden, strict=True)]
    columns = zip(("fingerprint", "descriptors", "counts"), zip(*vectors, strict=True), strict=True)
    extra = {name: torch.from_numpy(np.stack(rows)) for name, rows in columns}
    outputs = forest.outputs(replace(graphs.select(torch.tensor([0, 2])), extra=extra)).double()
    scores = Occlusion(alone, graphs, molecules).scores(hidden)
    assert torch.allclose(scores, model.calibration.logits(outputs)[:, 0])
    mean = (scores + Occlusion(model, graphs, molecules).scores(hidden)) / 2
    assert torch.allclose(Occlusion(both, graphs, molecules).scores(hidden), mean, atol=1e-5)
    with pytest.raises(OutlandError, match="forest reads vectors of molecules: name a table"):
        Occlusion(alone, graphs)


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
    rest = PackedGraphs.from_data_list(odd_graphs()[:1])  # a ring of five nodes; without one, a path of four
    path = Data(x=rest.x[1:], edge_index=undirected((0, 1), (1, 2), (2, 3)), y=torch.tensor([0]))
    scores = Occlusion(model, PackedGraphs.from_data_list([path]), towards="2").whole
    assert torch.allclose(Occlusion(model, rest, towards="2").scores([(0, (0,))]), scores, atol=1e-5)
    with pytest.raises(OutlandError, match="class"):
        Occlusion(model, graphs, towards="7")
