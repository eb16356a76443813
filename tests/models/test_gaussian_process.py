"""Gaussian processes on vectors of molecules, beside plain formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Task
from outland.models.gaussian_process import GaussianProcess, fit_gp
from outland.models.similarity import BitColumns
from tests.models.cases import vectors

NAN = float("nan")
BINARY, NUMBERS = Task("binary", 1, "rocauc"), Task("regression", 1, "rmse")


def labelled(rows, seed=0):
    """Molecules whose number is a smooth function of two descriptors."""
    graphs = vectors(rows, seed)
    values = graphs.extra["descriptors"].nan_to_num(0.0)
    return graphs, (values[:, 0] + values[:, 1].sin())[:, None]


def test_numbers_are_learned_and_are_those_of_the_formula():
    graphs, y = labelled(300)
    model = fit_gp(replace(graphs, y=y), NUMBERS, 0)
    new, truth = labelled(100, 5)
    outputs = model.outputs(new).double()
    assert float((outputs - truth).square().mean()) < 0.2 * float(truth.square().mean())
    values = new.extra["descriptors"].nan_to_num(NAN).numpy()
    z = np.nan_to_num((values - model.center.numpy()) * model.scale.numpy(), nan=0.0).clip(-5, 5)
    distance = np.square(z[:, None] - model.descriptors.numpy()).sum(2)
    (share, length) = model.kernels[0].tolist()
    tanimoto = BitColumns(model.fingerprints).tanimoto(new.extra["fingerprint"])
    kernel = share * tanimoto + (1 - share) * np.exp(-distance / length)
    expected = kernel @ model.coefficients.double().numpy() + model.link[0, 1].item()
    assert outputs.numpy() == pytest.approx(expected, abs=1e-4)


def test_an_unknown_descriptor_counts_as_average():
    graphs, y = labelled(200)
    model = fit_gp(replace(graphs, y=y), NUMBERS, 0)
    values = graphs.extra["descriptors"][:1].clone()
    unknown, average = values.clone(), values.clone()
    unknown[0, 3], average[0, 3] = NAN, model.center[3]
    one = graphs.select(torch.tensor([0]))
    outputs = [model.outputs(replace(one, extra={**one.extra, "descriptors": each})) for each in (unknown, average)]
    assert torch.allclose(*outputs, atol=1e-5)


def test_classes_have_probabilities_that_hold():
    graphs, score = labelled(600)
    noise = torch.rand(600, 1, generator=torch.Generator().manual_seed(3))
    y = (noise < (2 * score).sigmoid()).float()
    model = fit_gp(replace(graphs, y=y), BINARY, 0)
    new, truth = labelled(400, 7)
    p, rate = model.outputs(new).sigmoid(), (2 * truth).sigmoid()
    assert float((p - rate).abs().mean()) < 0.12
    assert float(p.mean()) == pytest.approx(float(rate.mean()), abs=0.05)


def test_several_classes_and_targets_with_gaps():
    graphs, score = labelled(300)
    classes = torch.bucketize(score.flatten(), torch.tensor([-0.7, 0.7]))
    model = fit_gp(replace(graphs, y=classes), Task("multiclass", 3, "accuracy"), 0)
    outputs = model.outputs(graphs)
    assert torch.allclose(outputs.exp().sum(1), torch.ones(300), atol=1e-5)
    assert float((outputs.argmax(1) == classes).float().mean()) > 0.8
    two = torch.cat([(score > 0).float(), (score < 0).float()], 1)
    two[:150, 1] = NAN
    model = fit_gp(replace(graphs, y=two), Task("binary", 2, "rocauc"), 0)
    assert bool((model.coefficients[:150, 1] == 0).all())
    assert bool((model.coefficients[:150, 0] != 0).any())
    first, second = model.outputs(graphs).T
    assert float(torch.corrcoef(torch.stack([first, second]))[0, 1]) < -0.8


def test_one_class_alone_is_called_and_no_label_is_refused():
    graphs, _ = labelled(30)
    assert bool((fit_gp(replace(graphs, y=torch.ones(30, 1)), BINARY, 0).outputs(graphs) > 3).all())
    with pytest.raises(OutlandError, match="no labels"):
        fit_gp(replace(graphs, y=torch.full((30, 1), NAN)), BINARY, 0)


def test_rows_beyond_the_most_are_not_learned_from(monkeypatch):
    monkeypatch.setattr("outland.models.gaussian_process.MOST_ROWS", 50)
    graphs, y = labelled(80)
    assert len(fit_gp(replace(graphs, y=y), NUMBERS, 0).coefficients) == 50


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("coefficients", lambda tensor: tensor[:-1]),
        ("kernels", lambda tensor: -tensor),
        ("link", lambda tensor: tensor * torch.inf),
        ("fingerprints", lambda tensor: tensor.float()),
        ("center", lambda tensor: tensor[1:]),
    ],
)
def test_parts_that_do_not_fit_are_refused(name, change):
    graphs, y = labelled(40)
    model = fit_gp(replace(graphs, y=y), NUMBERS, 0)
    model.check()
    with pytest.raises(ValueError, match="Gaussian process"):
        replace(model, **{name: change(getattr(model, name))}).check()


def test_it_is_rebuilt_from_its_tensors():
    graphs, y = labelled(60)
    model = fit_gp(replace(graphs, y=y), NUMBERS, 0)
    again = GaussianProcess(NUMBERS, **model.tensors())
    assert torch.equal(again.outputs(graphs), model.outputs(graphs))
