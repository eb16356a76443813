"""What a step asks of a method, and what it tells."""

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Batches
from outland.methods import Progress, build_method, method_settings
from outland.methods.base import Phase
from outland.nn import BackboneSettings
from outland.training import TrainSettings
from outland.training.stepper import Stepper


def prepared(motif, name="erm"):
    splits = motif.limit(40, 0)
    backbone = BackboneSettings(width=8, layers=3, dropout=0.0)
    torch.manual_seed(0)
    method = build_method(name, splits.schema, backbone, method_settings(name, {}))
    return method, next(iter(Batches(splits.graphs, splits["train"], 16)))


def test_every_step_draws_new_seeds_once(motif, monkeypatch):
    method, batch = prepared(motif, "aia")
    asked = []
    monkeypatch.setattr(method.seeds, "renew", lambda: asked.append(True))
    stepper = Stepper(method, TrainSettings())
    for step in range(3):
        stepper.step(batch, Progress(0, 1, step))
        assert len(asked) == step + 1


def test_a_phase_that_nobody_learns_from_is_told(motif):
    method, batch = prepared(motif)
    method.loss = lambda batch, progress: {"risk": torch.tensor(1.0)}
    method.phases = lambda: [Phase("idle", (method.classifier,), method.loss, 0.1)]
    with pytest.raises(OutlandError, match="no loss term of the phase 'idle' depends on what moves in it"):
        Stepper(method, TrainSettings()).step(batch, Progress())


def test_terms_add_up_and_constant_ones_do_not_count(motif):
    slopes = []
    for split in (False, True):
        method, batch = prepared(motif)
        risk = method.loss

        def loss(batch, progress, risk=risk, split=split):
            (whole,) = risk(batch, progress).values()
            terms = {"third": whole / 3, "rest": (2 * whole / 3)[None], "still": torch.tensor(7.0)}
            return terms if split else {"whole": whole}

        method.phases = lambda method=method, loss=loss: [Phase("risk", (method.classifier,), loss, 0.1)]
        Stepper(method, TrainSettings()).step(batch, Progress())
        slopes.append([parameter.grad for parameter in method.parameters()])
    for whole, parts in zip(*slopes, strict=True):
        assert torch.allclose(whole, parts, atol=1e-6)
    assert max(slope.abs().max().item() for slope in slopes[0]) > 1e-3
