"""Model folders of `outland fit` that somebody has changed and sealed again."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outland.estimators import GraphClassifier
from outland.storage.snapshots import read_snapshot
from tests.estimators.cases import SMALL, bbbp
from tests.faults.hostile import Tried, many, resealed, sealed

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    smiles, labels = bbbp()
    model = GraphClassifier("aia", epochs=1, backbone=SMALL).fit(smiles[:80], labels[:80])
    return read_snapshot(model.save(tmp_path_factory.mktemp("saved") / "model"))


def used(folder):
    """What a person does with a folder."""
    model = GraphClassifier.load(folder)
    flags = model.model_.familiar.flags(model._answers(["CCO", "c1ccccc1O"]).distances)
    assert len(flags) == len(model.predict_proba(["CCO", "c1ccccc1O"])) == 2
    assert model.predict(["CCO"])[0] in model.model_.classes
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
    special = st.sampled_from([name for name in sorted(saved.tensors) if not name.startswith("model.")])

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
