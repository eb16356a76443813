"""A trained model on new graphs."""

from dataclasses import replace

import numpy as np
import pytest

from outland.chem.featurizer import ATOMS, BONDS
from outland.estimators.inputs import read_inputs
from outland.graphs import Schema, Task
from outland.methods import METHODS, build_method
from outland.models.model import Predictions, run_batches
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
        outputs, embeddings = run_batches(method, graphs)
        assert outputs.shape == (3, 1), name
        assert embeddings.shape[0] == 3, name
        assert len({tuple(row) for row in embeddings.tolist()}) == 3, name


def test_probabilities_decisions_and_the_threshold_agree(fitted):
    smiles, _ = bbbp()
    model, predictions = fitted.model_, fitted.model_.predict(read_inputs(smiles).graphs)
    probabilities = model.probabilities(predictions)
    assert probabilities.shape == (298, 2)
    assert np.allclose(probabilities.sum(1), 1)
    assert ((probabilities[:, 1] > model.threshold(0)) == model.decisions(predictions)).all()
    no, yes = model.training.class_counts
    assert model.threshold() == pytest.approx(yes / (no + yes))
    assert (model.kind, model.targets, model.classes) == ("molecules", ["label"], (0, 1))


def test_several_targets_have_columns(fitted):
    """The same outputs read as those of two targets."""
    smiles, _ = bbbp()
    task = Task("binary", 2, "rocauc")
    model = replace(fitted.model_, calibration=replace(fitted.model_.calibration, temperature=(1, 2), offset=(0, 1)))
    model.method.schema = replace(model.schema, task=task)
    try:
        outputs = model.predict(read_inputs(smiles[:9]).graphs).outputs
        predictions = Predictions(outputs.repeat(1, 2), None, None)
        logits = outputs[:, 0].double()
        assert np.allclose(model.probabilities(predictions)[:, 0], logits.sigmoid())
        assert np.allclose(model.probabilities(predictions)[:, 1], (logits / 2 + 1).sigmoid())
        assert (model.decisions(predictions) == (logits > 0)[:, None].numpy()).all()
        assert (model.threshold(0), model.threshold(1)) == (0.5, pytest.approx(0.7310585786))
        assert model.targets == ["label0", "label1"]
        assert [model.target_index(name) for name in ("label1", "label0", "other", None)] == [1, 0, 0, 0]
    finally:
        model.method.schema = replace(model.schema, task=BINARY)


def test_the_device_is_the_methods(fitted):
    assert fitted.model_.device.type == "cpu"
    assert fitted.model_.distances(fitted.model_.predict(read_inputs(["CCO"]).graphs).embeddings).shape == (1,)
    assert replace(fitted.model_, distance=None).predict(read_inputs(["CCO"]).graphs).distances is None
