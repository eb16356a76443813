"""Training steps: phases, gradients and optimizers."""

import dataclasses
import os
import subprocess
import sys

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import Batches
from outland.methods import Progress, build_method, method_settings
from outland.methods.base import Phase
from outland.nn import BackboneSettings
from outland.training import TrainSettings
from outland.training.stepper import PhaseOptimizer, Stepper
from tests.training.cases import TINY, trainer


def prepared(motif, name="erm"):
    splits = motif.limit(40, 0)
    backbone = BackboneSettings(width=8, layers=3, dropout=0.0)
    torch.manual_seed(0)
    method = build_method(name, splits.schema, backbone, method_settings(name, {}))
    return method, next(iter(Batches(splits.graphs, splits["train"], 16)))


def test_every_step_draws_new_seeds_once(motif, monkeypatch):
    method, batch = prepared(motif, "aia")
    renewed = []
    monkeypatch.setattr(method.seeds, "renew", lambda: renewed.append(True))
    stepper = Stepper(method, TrainSettings())
    for step in range(3):
        stepper.step(batch, Progress(0, 1, step))
        assert len(renewed) == step + 1


class Frozen(torch.nn.Module):
    """Two layers, of which the first stays as it is in all training."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.calls = torch.nn.Dropout(), torch.nn.Dropout(), []

    def train(self, mode=True):
        self.calls.append(mode)
        super().train(mode)
        self.first.train(False)
        return self


def test_modes_are_set_by_what_modules_have_of_their_own(motif):
    method, batch = prepared(motif)
    method.frozen, seen, risk = Frozen(), [], method.loss

    def loss(batch, progress):
        seen.append((method.frozen.first.training, method.frozen.second.training, method.classifier.training))
        return risk(batch, progress)

    method.phases = lambda: [Phase("risk", (method,), loss, 0.1)]
    stepper = Stepper(method, TrainSettings())
    for step in range(3):
        stepper.step(batch, Progress(0, 1, step))
    assert seen == [(False, True, True)] * 3
    assert method.frozen.calls == [False, True]  # once, for nothing has changed since
    method.eval()  # as an evaluation does
    stepper.step(batch, Progress(0, 1, 3))
    assert seen[3] == (False, True, True)


def test_phases_change_modes_and_those_of_modules_that_came_later(motif):
    method, batch = prepared(motif)
    method.other, seen, risk = torch.nn.ModuleList([torch.nn.Linear(1, 1)]), [], method.loss

    def loss(batch, progress):
        seen.append((method.classifier.training, *(module.training for module in method.other.modules())))
        return {**risk(batch, progress), "other": method.other[0].weight.square().sum()}

    names = {"risk": method.classifier, "other": method.other}
    method.phases = lambda: [Phase(name, (module,), loss, 0.1) for name, module in names.items()]
    stepper = Stepper(method, TrainSettings())
    stepper.step(batch, Progress(0, 1, 0))
    method.other.append(torch.nn.Dropout())
    stepper.step(batch, Progress(0, 1, 1))
    assert seen[:2] == [(True, False, False), (False, True, True)]
    assert seen[2:] == [(True, False, False, False), (False, True, True, True)]


def test_a_phase_without_a_gradient_is_an_error(motif):
    method, batch = prepared(motif)
    method.loss = lambda batch, progress: {"risk": torch.tensor(1.0)}
    method.phases = lambda: [Phase("idle", (method.classifier,), method.loss, 0.1)]
    with pytest.raises(OutlandError, match="no loss term of the phase 'idle' depends on what moves in it"):
        Stepper(method, TrainSettings()).step(batch, Progress())


def test_terms_add_up_and_constant_ones_do_not_count(motif):
    gradients = []
    for split in (False, True):
        method, batch = prepared(motif)
        risk = method.loss

        def loss(batch, progress, risk=risk, split=split):
            (whole,) = risk(batch, progress).values()
            terms = {"third": whole / 3, "rest": (2 * whole / 3)[None], "still": torch.tensor(7.0)}
            return terms if split else {"whole": whole}

        method.phases = lambda method=method, loss=loss: [Phase("risk", (method.classifier,), loss, 0.1)]
        Stepper(method, TrainSettings()).step(batch, Progress())
        gradients.append([parameter.grad for parameter in method.parameters()])
    for whole, parts in zip(*gradients, strict=True):
        assert torch.allclose(whole, parts, atol=1e-6)
    assert max(gradient.abs().max().item() for gradient in gradients[0]) > 1e-3


def test_a_rollback_leaves_no_trace(any_splits):
    run = trainer(any_splits, seed=1, layout="padded")
    run.fit()
    stepper, batch = run.stepper, next(iter(run.batches))
    before = {name: value.clone() for name, value in run.method.state_dict().items()}
    moments = {name: value.clone() for name, value in stepper.state_dict().items()}
    draws = run.method.dropout_random.get_state()
    with stepper.rollback():
        stepper.step(batch, Progress())
        assert not torch.equal(draws, run.method.dropout_random.get_state())
    assert all(torch.equal(value, before[name]) for name, value in run.method.state_dict().items())
    assert all(torch.equal(value, moments[name]) for name, value in stepper.state_dict().items())
    assert torch.equal(draws, run.method.dropout_random.get_state())


def test_a_phase_may_have_its_own_decay_and_schedule(any_splits):
    run = trainer(any_splits, "aia")
    phase = dataclasses.replace(run.stepper.optimizers[1].phase, weight_decay=0.5, schedule="constant")
    optimizer = PhaseOptimizer(phase, run.settings)
    assert optimizer.adam.weight_decay == 0.5
    run.stepper.optimizers[1] = optimizer
    run.stepper.set_learning_rates(2)
    rates = [optimizer.adam.lr for optimizer in run.stepper.optimizers]
    assert rates == pytest.approx([1e-3 * 0.25, 5e-3])


def test_phase_that_does_not_run_leaves_its_parameters_alone(any_splits):
    for epochs in (1, 2):
        run = trainer(any_splits, "aia", epochs=epochs)
        phase = run.stepper.optimizers[1].phase
        run.stepper.optimizers[1].phase = dataclasses.replace(phase, when=lambda progress: progress.epoch > 0)
        before = {name: value.clone() for name, value in run.method.augmenter.state_dict().items()}
        run.fit()
        assert "adversarial.distance" not in run.curves[0]["loss"]
        if epochs == 1:
            after = run.method.augmenter.state_dict()
            assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert "adversarial.distance" in run.curves[1]["loss"]


@pytest.mark.parametrize("name", ["erm", "aia"])
def test_one_step_lowers_the_loss(motif, name):
    """On a few graphs, for at least 19 of 20 seeds."""
    batch = next(iter(Batches(motif.graphs, motif["train"][:8], 8)))
    lowered = 0
    for seed in range(20):
        torch.manual_seed(seed)
        settings = dataclasses.replace(TINY, dropout=0.0)
        method = build_method(name, motif.schema, settings, method_settings(name, {}))
        stepper = Stepper(method, TrainSettings(schedule="constant"))
        first = stepper.backward(stepper.optimizers[0], batch, Progress())
        stepper.optimizers[0].adam.step()
        second = stepper.backward(stepper.optimizers[0], batch, Progress())
        lowered += sum(second.values()) < sum(first.values())
    assert lowered >= 19


def test_two_threads_give_the_same_weights_every_time():
    """In a process of its own: one that has been set to one thread does not go back to two."""
    threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}  # that wait for each other take no core
    environment = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.training.two_threads"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", *["1"] * 6]
