import dataclasses

import torch

from outland.shift import WeightedGraphs
from outland.shift.domain_classifier import domain_features, train_domain_classifier
from outland.shift.pair import make_pair
from outland.shift.trials import draw_trial
from tests.shift.cases import QUICK, random_graphs


def test_held_out_graphs_do_not_change_the_network():
    """Features of the others stay as they are, to the last bit, when the held-out graphs and sides are changed."""
    pair = make_pair(random_graphs(40, seed=1), random_graphs(40, seed=2))
    trial = draw_trial(pair, QUICK, 0)
    held_out = trial.fold == 1
    plain, _ = domain_features(trial.with_sides(trial.side), pair.schema, 3, held_out, QUICK, 0)
    packed = trial.graphs.graphs
    rows = held_out.repeat_interleave(packed.node_counts)
    changed = dataclasses.replace(packed, x=torch.where(rows[:, None], packed.x + 9, packed.x))
    other = dataclasses.replace(trial, graphs=WeightedGraphs(changed))
    side = torch.where(held_out, 1 - trial.side, trial.side)
    features, _ = domain_features(other.with_sides(side), pair.schema, 3, held_out, QUICK, 0)
    assert torch.equal(features[~held_out], plain[~held_out])
    assert not torch.equal(features[held_out], plain[held_out])


def test_the_domain_classifier_is_the_mean_of_its_second_half(monkeypatch):
    pair = make_pair(random_graphs(30, seed=1), random_graphs(30, seed=2, offset=1.0))
    trial = draw_trial(pair, QUICK, 0)
    settings = dataclasses.replace(QUICK, steps=7)
    steps, step = [], torch.optim.SGD.step

    def recorded_step(self, *rest):
        step(self, *rest)
        steps.append([parameter.detach().clone() for parameter in self.param_groups[0]["params"]])

    monkeypatch.setattr(torch.optim.SGD, "step", recorded_step)
    train = torch.arange(len(trial.side))
    net = train_domain_classifier(trial.with_sides(trial.side), pair.schema, 3, train, settings, 0)
    assert len(steps) == 7
    for mean, *values in zip(net.parameters(), *steps[3:], strict=True):
        torch.testing.assert_close(mean, torch.stack(values).mean(0))
    assert not all(torch.allclose(mean, last) for mean, last in zip(net.parameters(), steps[-1], strict=True))
