"""Steps that are captured and replayed: off a GPU the same program is called again, so all but the launch is tested."""

import dataclasses

import pytest
import torch

from outland.methods import METHODS, build_method, method_settings
from outland.nn import BackboneSettings
from outland.training import Trainer, TrainSettings
from outland.training.steps import ReplayedSteps

FRAME = TrainSettings(epochs=4, batch_size=5, eval_batch_size=8, layout="padded")


def trained(name, splits, replay, pool="mean", epochs=3, **changes):
    torch.manual_seed(0)
    backbone = BackboneSettings(width=8, layers=3, dropout=0.3, pool=pool)
    method = build_method(name, splits.schema, backbone, method_settings(name, changes))
    run = Trainer(method, splits, dataclasses.replace(FRAME, epochs=epochs), seed=1, replay=replay)
    run.fit()
    return run


def assert_equal_weights(one, other):
    theirs = other.method.state_dict()
    for key, value in one.method.state_dict().items():
        assert torch.equal(value, theirs[key]), key


@pytest.mark.parametrize("name", [*METHODS, "aia:paper", "aia:rdia", "stablegnn:hsic"])
def test_replayed_runs_equal_eager_ones(any_splits, name):
    epochs = 4 if name == "disc" else 3  # of which it swaps in the last
    changes = {"ood-gnn": {"warm_up": 1}, "irm": {"warm_up": 5, "penalty": 10.0}, "gsat": {"interval": 1}}.get(name, {})
    eager, replayed = (trained(name, any_splits, replay, epochs=epochs, **changes) for replay in (False, True))
    if name == "gsat":  # 1 - r is taken in single precision once r is a tensor
        for one, other in zip(eager.curves, replayed.curves, strict=True):
            assert one["loss"] == pytest.approx(other["loss"], abs=1e-4)
        return
    assert replayed.curves == eager.curves
    assert_equal_weights(eager, replayed)


@pytest.mark.parametrize("pool", ["max", "softmax", "attention"])
@pytest.mark.parametrize("name", ["erm", "aia", "dir", "stablegnn"])
def test_every_readout_can_be_replayed(any_splits, name, pool):
    eager, replayed = (trained(name, any_splits, replay, pool, epochs=2) for replay in (False, True))
    assert replayed.curves == eager.curves
    assert_equal_weights(eager, replayed)


def test_disc_has_one_capture_before_and_one_after_it_swaps(any_splits):
    seen = []
    original = ReplayedSteps.capture_step

    def spy(self, shape, now):
        seen.append((shape, now.epoch))
        return original(self, shape, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReplayedSteps, "capture_step", spy)
        trained("disc", any_splits, True, epochs=4)
    assert len(seen) == 2 * len({shape for shape, _ in seen})
    assert {epoch for _, epoch in seen} == {0, 3}


def test_replayed_and_exact_runs_agree_for_fifty_steps(motif):
    """In double precision: in single, Adam makes whole steps of the rounding in gradients that are truly 0."""
    small = motif.limit(40)
    splits, runs = dataclasses.replace(small, graphs=dataclasses.replace(small.graphs, x=small.graphs.x.double())), []
    for layout, replay in (("exact", False), ("padded", True)):
        torch.manual_seed(0)
        backbone = BackboneSettings(width=16, layers=3, dropout=0.0)
        method = build_method("aia", splits.schema, backbone, method_settings("aia", {})).double()
        frame = dataclasses.replace(FRAME, layout=layout, batch_size=8, eval_batch_size=40, epochs=10)
        run = Trainer(method, splits, frame, seed=1, replay=replay)
        run.fit()
        runs.append(run)
    for one, other in zip(runs[0].curves, runs[1].curves, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-8)
