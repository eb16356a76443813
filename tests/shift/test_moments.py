import dataclasses

import pytest
import torch

from outland.errors import OutlandError
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.shift import Moments, fresh_draws, train_moments
from outland.training import RunSpec, Trainer, TrainSettings

SMALL = BackboneSettings(width=8, layers=3, dropout=0.3)


def cut(motif, graphs=60):
    return dataclasses.replace(motif, parts={name: index[:graphs] for name, index in motif.parts.items()})


def built(name, splits, **settings):
    torch.manual_seed(0)
    return build_method(name, splits.schema, SMALL, method_settings(name, settings))


@pytest.mark.parametrize(("drop", "golden"), [(0.2, 0.7219), (0.5, 1.0)])
def test_dropedge_has_the_entropy_of_its_coin(motif, drop, golden):
    actual = fresh_draws(built("dropedge", motif, drop=drop), motif, moments=60, most=60).diversity()
    assert (actual.moments, actual.graphs, actual.bins, actual.over) == (60, 60, 2, "edge")
    for part in ("full", "environment", "stable"):
        assert actual.parts[part]["bernoulli"][0] == pytest.approx(golden, abs=0.02)
        assert actual.parts[part]["corrected"][0] == pytest.approx(golden, abs=0.02)
        assert actual.parts[part]["factorised"][0] < actual.parts[part]["corrected"][0]
    assert actual.parts["full"]["joint"][0] > 0.95  # it saturates: see joint_entropy


def test_a_part_is_unmoved_by_masks_outside_it(motif):
    recorder = fresh_draws(built("dropedge", motif), motif, moments=20, most=30)
    before = recorder.diversity().parts
    truth = recorder.graphs.edge_truth
    recorder.masks["edge"] = [torch.where(truth, mask, 1.0) for mask in recorder.masks["edge"]]
    after = recorder.diversity().parts
    assert after["stable"] == before["stable"]
    assert after["environment"]["factorised"] == (0.0, 0.0)
    recorder.masks["edge"] = [torch.ones_like(mask) for mask in recorder.masks["edge"]]
    assert recorder.diversity().parts["full"]["factorised"] == (0.0, 0.0)


def test_masks_are_taken_at_the_end_of_each_epoch_and_training_is_as_without(motif):
    splits = cut(motif)
    frame = TrainSettings(epochs=4, batch_size=20)
    curves = []
    for watching in (False, True):
        method = built("aia", splits)
        recorder = Moments(method, splits, most=15) if watching else None
        run = Trainer(method, splits, frame, seed=3, callback=recorder)
        run.fit()
        curves.append(run.curves)
    assert curves[0] == curves[1]
    actual = recorder.diversity()
    assert actual.moments == 4
    assert actual.bins == 10
    masks = torch.stack(recorder.masks["edge"])
    assert masks.shape == (4, int(recorder.graphs.edge_counts.sum()))
    assert bool((masks[1:] != masks[:-1]).any())
    assert 0 <= actual.parts["stable"]["factorised"][0] <= 1
    assert recorder.diversity("node").parts["full"]["factorised"][0] >= 0


def test_masks_every_few_steps_without_warm_up(motif):
    splits = cut(motif)
    method = built("aia:rdia", splits)
    recorder = Moments(method, splits, most=10, every=2, skip=1)
    Trainer(method, splits, TrainSettings(epochs=4, batch_size=20), callback=recorder).fit()
    assert recorder.diversity().moments == 5  # 12 steps, 6 moments, the first left out


def test_from_a_spec(cache):
    words = ["data.limit=40", "backbone.width=8", "train.epochs=2", "train.batch_size=20"]
    recorder = train_moments(RunSpec.from_words("motif", "dropedge", words, domain="base"), most=20, cache=cache)
    assert recorder.diversity().to_json()["parts"]["full"]["bernoulli"][0] > 0


def test_sentences(motif):
    with pytest.raises(OutlandError, match="at least two moments, and there are 1"):
        fresh_draws(built("dropedge", motif), motif, moments=1, most=5).diversity()
    with pytest.raises(OutlandError, match="erm lays no mask"):
        fresh_draws(built("erm", motif), motif, moments=2, most=5)
