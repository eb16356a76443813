"""Model folders that somebody has changed and sealed again."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outland.datasets import TableSettings
from outland.estimators import GraphClassifier
from outland.graphs import Cache
from outland.models import Assessment, evaluate_models, load_model, save_model
from outland.models.card import card
from outland.models.explained_rows import explain_table
from outland.models.table_predictions import TableReport, count_prediction
from outland.report.advice import advise
from outland.report.explain_page import explain_page
from outland.report.summaries import prediction_lines
from outland.spec import RunSpec, load_splits
from outland.storage.snapshots import read_snapshot
from outland.training import run
from outland.training.run_folder import RunFolder
from tests.faults.hostile import Tried, many, resealed, sealed
from tests.models.cases import SMALL, TABLE

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a fit, with an assessment."""
    folder = tmp_path_factory.mktemp("saved")
    changes = {"train": {"epochs": 1}, "backbone": SMALL, "data": {"limit": 80}}
    spec = RunSpec.make("bbbp", "aia", changes=changes, table=TableSettings(str(TABLE), target="p_np"), domain="random")
    splits = load_splits(spec, cache=Cache(folder / "cache"))
    run(spec, folder, device="cpu", cache=Cache(folder / "cache"))
    model = load_model(RunFolder(folder, spec).path)
    scores = [score for part in ("val", "test") for score in evaluate_models([model], splits.part(part), part)]
    return read_snapshot(save_model(replace(model, assessment=Assessment(scores=scores)), folder / "model"))


def used(folder):
    """What a person does with a folder."""
    model = GraphClassifier.load(folder)
    assert len(model.distance(["CCO", "c1ccccc1O"])) == len(model.predict_proba(["CCO", "c1ccccc1O"])) == 2
    assert model.predict(["CCO"])[0] in model.classes_
    explained = explain_table(model.model_, TABLE, "smiles", most=5)
    assert explain_page(model.model_, explained, "t.csv").startswith("<!doctype html>")
    report = TableReport(folder)
    for prediction in (row.prediction for row in explained.rows if row.prediction):
        count_prediction(model.model_, prediction, report)
    assert prediction_lines(model.model_, report)
    assert advise(model.model_, report)
    assert card(model.model_)
    return model


def test_values_sealed_by_an_enemy(saved, tmp_path, tally):
    tried = resealed(250, saved, tmp_path / "model", lambda: used(tmp_path / "model"))
    sealed(tmp_path / "model", saved.values, saved.tensors)
    assert tried(lambda: used(tmp_path / "model")) is not None
    assert tried.refused > 0.3 * tried.inputs
    tally("inputs", "model folders", tried.inputs)


def test_tensors_sealed_by_an_enemy(saved, tmp_path, tally):
    tried = Tried()
    changes = {
        "gone": lambda tensor: None,
        "large": lambda tensor: tensor.clone().fill_(100),
        "wrong": lambda tensor: tensor.double(),
        "whole": lambda tensor: tensor.int(),
        "short": lambda tensor: torch.atleast_1d(tensor)[:1].clone(),
        "none": lambda tensor: torch.atleast_1d(tensor)[:0].clone(),
        "deep": lambda tensor: tensor[None].clone(),
    }
    names = st.sampled_from(sorted(saved.tensors))
    special = st.sampled_from([name for name in sorted(saved.tensors) if not name.startswith("member.")])

    @many(100)
    @given(st.lists(st.tuples(names | special, st.sampled_from(sorted(changes))), min_size=1, max_size=2))
    def one(chosen):
        tensors = dict(saved.tensors)
        for name, change in chosen:
            tensors[name] = changes[change](saved.tensors[name])
        sealed(tmp_path / "model", saved.values, {name: one for name, one in tensors.items() if one is not None})
        tried(lambda: used(tmp_path / "model"))

    one()
    assert tried.refused > 0.3 * tried.inputs
    tally("inputs", "model folders", tried.inputs)
