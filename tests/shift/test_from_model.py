"""How far graphs are from those a model was trained on."""

from dataclasses import replace

import pytest
import torch

from outland.errors import OutlandError
from outland.estimators.inputs import read_inputs
from outland.models import load_model
from outland.shift import ShiftSettings, measure_shift
from outland.shift.from_model import shift_from_training
from outland.training import RunSpec, run
from outland.training.run_folder import RunFolder

ROUGH = ShiftSettings(trials=1, most=60, folds=3, steps=20)


def test_it_is_measured_from_the_training_graphs_that_a_model_keeps(fitted):
    graphs = read_inputs(["C" * size + "O" for size in range(1, 61)]).graphs
    model = fitted.model_
    result = shift_from_training(model, graphs, ROUGH, seed=5)
    expected = measure_shift(model.reference, graphs, schema=model.schema, labels=False, settings=ROUGH, seed=5)
    assert (result.covariate, result.null, result.accuracy) == (expected.covariate, expected.null, expected.accuracy)
    assert result.graphs["given"] == [268, 60] == [model.training.graphs["train"], len(graphs)]
    assert result.correlation is None
    with pytest.raises(OutlandError, match="at least 20"):
        shift_from_training(model, graphs.select(torch.arange(9)), ROUGH)


def test_training_graphs_of_a_benchmark_are_loaded_again(motif, cache, tmp_path):
    spec = RunSpec.from_words("motif", "erm", ["data.limit=60", "backbone.width=8", "train.epochs=1"])
    run(spec, tmp_path, device="cpu", cache=cache)
    model = load_model(RunFolder(tmp_path, spec).path)
    limited = motif.limit(60, spec.data.seed)
    result = shift_from_training(model, limited.part("test"), ROUGH, cache=cache)
    kept = shift_from_training(replace(model, reference=limited.part("train")), limited.part("test"), ROUGH)
    assert model.reference is None
    assert result.covariate == kept.covariate
    assert result.graphs["given"] == [60, 60]
