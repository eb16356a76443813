"""Averaged weights."""

import dataclasses

import pytest
import torch

from outland.methods import Progress, build_method, method_settings
from outland.nn import BackboneSettings
from outland.training import Trainer, TrainSettings, evaluate
from outland.training.average import WeightAverage
from outland.training.checkpoint import Checkpoints
from tests.cases import StopsAfterOne
from tests.conftest import REAL

FRAME = TrainSettings(epochs=3, batch_size=5, eval_batch_size=8, layout="padded", average=0.9, checkpoint_every=1)


def trainer(splits, checkpoints=None, replay=False, **changes):
    torch.manual_seed(0)
    method = build_method("aia", splits.schema, BackboneSettings(width=8, layers=3), method_settings("aia", {}))
    return Trainer(method, splits, dataclasses.replace(FRAME, **changes), 0, checkpoints, replay=replay)


def test_the_mean_follows_its_equation():
    torch.manual_seed(0)
    method = build_method("erm", REAL, BackboneSettings(width=4, layers=2), method_settings("erm", {})).double()
    average, weight = WeightAverage(method, 0.75), method.classifier.head.linear.weight
    expected = weight.detach().clone()
    for step in range(12):
        with torch.no_grad():
            weight.add_(torch.randn_like(weight))
        share = min(0.75, (1 + step) / (10 + step))
        expected = share * expected + (1 - share) * weight.detach()
        average.update(Progress(step=step))
    assert torch.allclose(average.state_dict()["classifier.head.linear.weight"], expected, atol=1e-12)
    own = weight.detach().clone()
    with average.applied():
        assert torch.allclose(weight, expected, atol=1e-12)
    assert torch.equal(weight, own)


def test_training_itself_is_not_changed_and_the_average_is_what_is_kept(any_splits):
    plain, averaged = trainer(any_splits, average=0.0), trainer(any_splits)
    plain.fit()
    averaged.fit()
    assert [row["loss"] for row in plain.curves] == [row["loss"] for row in averaged.curves]
    assert [row["val"] for row in plain.curves] == [row["unaveraged"]["val"] for row in averaged.curves]
    picked = averaged.rule.pick(averaged.curves, any_splits.schema.task)
    assert evaluate(averaged.method, any_splits, 8)["test"] == averaged.curves[picked]["test"]
    last = trainer(any_splits, select="last_epoch")
    last.fit()
    for name, mean in last.stepper.average.state_dict().items():
        assert torch.equal(last.method.state_dict()[name], mean)
    bare = trainer(any_splits, select="last_epoch", average=0.0)
    bare.fit()
    name = "classifier.head.linear.weight"
    assert not torch.allclose(bare.method.state_dict()[name], last.method.state_dict()[name])


@pytest.mark.parametrize("replay", [False, True])
def test_resumed_and_replayed_runs_have_the_same_average(any_splits, tmp_path, replay):
    complete = trainer(any_splits)
    complete.fit()
    half = trainer(any_splits, Checkpoints(tmp_path), replay)
    half.callback = StopsAfterOne()
    with pytest.raises(KeyboardInterrupt):
        half.fit()
    resumed = trainer(any_splits, Checkpoints(tmp_path), replay)
    assert resumed.resume() == 1
    resumed.fit()
    for one, other in zip(complete.curves, resumed.curves, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert one["test"] == pytest.approx(other["test"], abs=1e-6)
