"""A trained model on new graphs."""

from dataclasses import replace

import numpy as np
import torch

from outland.chem.featurizer import ATOMS, BONDS
from outland.estimators.inputs import read_inputs
from outland.graphs import Schema, Task
from outland.methods import METHODS, build_method
from outland.models.calibration import Calibration
from outland.models.members import run_batches, run_networks
from outland.models.model import Predictions
from outland.nn import BackboneSettings
from outland.spec import RunSpec
from tests.models.cases import bbbp

BINARY = Task("binary", 1, "rocauc")


def test_every_method_has_embeddings_at_its_head():
    graphs = read_inputs(["CCO", "c1ccccc1O", "CC(=O)N"]).graphs
    schema = Schema(ATOMS, BINARY, BONDS, environments=2)
    for name in METHODS:
        spec = RunSpec.make("memory", name, domain="scaffold", kind="covariate", data_checksum="0")
        method = build_method(name, schema, BackboneSettings(width=8, layers=3), spec.method_params)
        ((outputs, embeddings),) = run_batches([method], graphs)
        assert outputs.shape == (3, 1), name
        assert embeddings.shape[0] == 3, name
        assert len({tuple(row) for row in embeddings.tolist()}) == 3, name


def test_the_most_probable_class_is_called(fitted):
    smiles, _ = bbbp()
    model, predictions = fitted.model_, fitted.model_.predict(read_inputs(smiles).graphs)
    probabilities = model.probabilities(predictions)
    assert probabilities.shape == (298, 2)
    assert np.allclose(probabilities.sum(1), 1)
    assert (probabilities.argmax(1) == model.decisions(predictions)).all()
    raw = run_batches([model.method], read_inputs(smiles).graphs)[0][0]
    no, yes = model.training.class_counts
    none, all_ = model.training.class_draws
    assert torch.allclose(predictions.outputs - raw, torch.tensor(np.log(yes / no * none / all_)).float())
    assert (model.kind, model.targets, model.classes) == ("molecules", ["label"], (0, 1))


def test_several_targets_have_columns(fitted):
    """The same outputs read as those of two targets."""
    smiles, _ = bbbp()
    schema = replace(fitted.model_.schema, task=Task("binary", 2, "rocauc"))
    model = replace(fitted.model_, schema=schema, calibration=Calibration((1, 2), (0, 1)))
    outputs = fitted.model_.predict(read_inputs(smiles[:9]).graphs).outputs
    predictions = Predictions(outputs.repeat(1, 2))
    logits = outputs[:, 0].double()
    assert np.allclose(model.probabilities(predictions)[:, 0], logits.sigmoid())
    assert np.allclose(model.probabilities(predictions)[:, 1], (logits / 2 + 1).sigmoid())
    assert (model.decisions(predictions) == torch.stack([logits > 0, logits / 2 + 1 > 0], 1).numpy()).all()
    assert model.targets == ["label0", "label1"]
    assert [model.target_index(name) for name in ("label1", "label0", "other", None)] == [1, 0, 0, 0]


def test_the_device_is_the_methods(fitted):
    assert fitted.model_.device.type == "cpu"
    assert fitted.model_.distances(fitted.model_.predict(read_inputs(["CCO"]).graphs).embeddings).shape == (1,)
    assert replace(fitted.model_, distance=None).predict(read_inputs(["CCO"]).graphs).distances is None


def test_networks_that_share_batches_say_what_each_says_alone(fitted):
    graphs = read_inputs(bbbp()[0]).graphs
    network = replace(fitted.model_.network, offset=())
    other = replace(network, offset=(0.5,))
    (first, embeddings), (second, same) = run_networks([network, other], graphs)
    assert torch.equal(first, network.outputs(graphs))
    assert torch.equal(second, first + 0.5)
    assert torch.equal(embeddings, same)
    both = replace(fitted.model_, members=(network, other), weights=())
    assert torch.equal(both.predict(graphs).outputs, (first + second) / 2)
