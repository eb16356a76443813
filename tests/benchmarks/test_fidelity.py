"""`benchmarks/fidelity.py` on a small network that has not been trained."""

import json
import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import fidelity
from outland.errors import OutlandError
from outland.methods import build_method, method_settings
from outland.models import TrainedModel, TrainingSummary, save_model
from outland.models.calibration import Calibration
from outland.models.members import Network
from outland.spec import RunSpec
from outland.training.mask_quality import mask_quality


@pytest.fixture
def model(motif, monkeypatch):
    monkeypatch.setattr(fidelity, "load_part", lambda model, part: motif.limit(12).part(part))
    spec = RunSpec.from_words("motif", "cal", ["backbone.width=8", "backbone.layers=3"], domain="base")
    torch.manual_seed(0)
    method = build_method("cal", motif.schema, spec.backbone, method_settings("cal", {})).eval()
    members, calibration = (Network(method, spec),), Calibration.identity(motif.schema.task)
    training = TrainingSummary(epochs=0, best_epoch=0, seconds=1.0, graphs={})
    return TrainedModel(members, motif.schema, spec, (0, 1, 2), calibration, training)


def test_every_explanation_is_measured_on_the_same_graphs(model, motif):
    result = fidelity.measure(model, "test", 100, seed=0, epochs=3)
    explanations = result["explanations"]
    assert list(explanations) == list(fidelity.COLOURS)
    assert (result["method"], result["part"], result["graphs"]) == ("cal", "motif/base:test", 12)
    quality = mask_quality(model.method, motif.limit(12), 16)["test"]["rocauc"]
    assert explanations["stable mask"]["rocauc"] == pytest.approx(quality, abs=1e-6)
    assert explanations[fidelity.RANDOM]["areas"]["deletion_gain"] == (0, 0, 0)
    last = {round(each["deletion"]["fall"][-1], 6) for each in explanations.values()}
    first = {round(each["insertion"]["fall"][0], 6) for each in explanations.values()}
    assert len(last) == 1  # all edges are gone, whatever their order was
    assert last == first
    assert all(each["deletion"]["kept"][0] == 1 for each in explanations.values())


def test_only_some_graphs(model):
    assert fidelity.measure(model, "test", 5, seed=0, epochs=1)["graphs"] == 5


def test_results_are_kept_shown_and_drawn(model, tmp_path, monkeypatch, capsys):
    out, picture = tmp_path / "fidelity.json", tmp_path / "curves.svg"
    given = ["fidelity", "--graphs", "4", "--epochs", "1", "--out", str(out), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", [*given, "--model", str(save_model(model, tmp_path / "first"))])
    fidelity.main()
    again = [*given, "--model", str(save_model(model, tmp_path / "second")), "--picture", str(picture)]
    monkeypatch.setattr(sys, "argv", again)
    capsys.readouterr()
    fidelity.main()
    results = json.loads(out.read_text())
    assert list(results) == ["first", "second"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 2 * 5
    mean, low, high = results["second"]["explanations"]["leave one out"]["areas"]["insertion_gain"]
    cells = next(line for line in lines[7:] if "leave one out" in line).split(" | ")
    assert cells[5] == f"{mean:.3f} ({low:.3f} to {high:.3f})"
    assert picture.read_text().count("cal, seed 0, motif/base:test") == 2


def test_several_members_are_refused(model):
    with pytest.raises(OutlandError, match="of one network, and this model is 2 cal"):
        fidelity.explainers(replace(model, members=model.members * 2), 1, 0)
