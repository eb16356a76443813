import dataclasses
import json
import math

import pytest
import torch

from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.nn import BackboneSettings
from outland.shift import Estimate, ShiftSettings, WeightedGraphs, measure, measure_shift
from outland.shift.domains import _trained, domain_features
from outland.shift.measure import calibrated
from outland.shift.pair import make_pair
from outland.shift.trials import draw_trial
from outland.shift.words import verdict
from tests.shift.conftest import law


def at(result, epsilon, name="covariate"):
    """The value at one of the thresholds that every result has."""
    return next(row[name] for row in result.by_epsilon if row["epsilon"] == epsilon)


NET = BackboneSettings(width=16, layers=2, dropout=0.0, pool="sum", head="mlp")
# A few seconds a measurement; with so few graphs densities are wide, and far sets are told by larger thresholds.
QUICK = ShiftSettings(trials=2, most=80, folds=3, steps=40, samples=1000, features=4, backbone=NET)
TINY = dataclasses.replace(QUICK, trials=1, folds=3, steps=20)


def test_far_sets_are_far_and_equal_ones_are_not():
    far = measure_shift(law(80, seed=1), law(80, seed=2, offset=3.0), settings=QUICK)
    assert far.covariate.mean > 0.5
    assert at(far, 1e-6) > 0.9
    assert far.null.mean <= 0.01 + 1e-9
    assert far.calibrated
    assert far.accuracy.mean > 0.97
    assert "large covariate shift" in far.sentence()
    near = measure_shift(law(80, seed=1), law(80, seed=2), settings=QUICK)
    assert near.covariate.mean < 0.08
    assert 0.35 < near.accuracy.mean < 0.65
    assert "No covariate shift" in near.sentence()
    assert near.graphs == {"given": [80, 80], "compared": [80, 80]}


def test_size_is_seen_though_every_node_looks_alike():
    small, large = law(60, seed=1, size=5), law(60, seed=2, size=20)
    for graph in [*small, *large]:
        graph.x = torch.ones(len(graph.x), 1)
    found = measure_shift(small, large, settings=dataclasses.replace(QUICK, trials=1))
    assert at(found, 1e-6) > 0.9


def test_a_correlation_shift_is_told_from_a_covariate_one():
    """Two environments of graphs; which class goes with which turns round."""

    def turned(seed, order):
        marked = []
        for place in range(200):
            (graph,) = law(1, seed=1000 * seed + place, offset=1.5 if place % 2 else -1.5)
            graph.y = torch.tensor([order[place % 2] if place % 20 > 1 else place // 20 % 2])
            marked.append(graph)
        return marked

    settings = dataclasses.replace(QUICK, trials=1, most=200, features=2, steps=100)
    found = measure_shift(turned(1, (0, 1)), turned(2, (1, 0)), settings=settings)
    assert found.correlation.mean > 0.5
    assert found.correlation_null.mean < 0.3
    assert found.covariate.mean < 0.2
    assert "correlation" not in found.sentence()  # of one trial nothing is said
    thrice = dataclasses.replace(found, correlation=Estimate.of(3 * found.correlation.values))
    assert "There is a correlation shift: where both sets are" in thrice.sentence()


def test_one_seed_decides_everything_and_nothing_else():
    sides = law(60, seed=1), law(60, seed=2, offset=0.5)
    found = []
    for seed in (4, 4, 5):
        torch.rand(3)
        found.append(measure_shift(*sides, settings=TINY, seed=seed).by_epsilon)
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_held_out_graphs_do_not_touch_the_network():
    """Features of the others stay as they are, to the last bit, when the held-out graphs and sides are changed."""
    pair = make_pair(law(40, seed=1), law(40, seed=2))
    trial = draw_trial(pair, QUICK, 0)
    held_out = trial.fold == 1
    plain, _ = domain_features(trial.sided(trial.side), pair.schema, 3, held_out, QUICK, 0)
    packed = trial.graphs.graphs
    rows = held_out.repeat_interleave(packed.node_counts)
    changed = dataclasses.replace(packed, x=torch.where(rows[:, None], packed.x + 9, packed.x))
    other = dataclasses.replace(trial, graphs=WeightedGraphs(changed))
    side = torch.where(held_out, 1 - trial.side, trial.side)
    found, _ = domain_features(other.sided(side), pair.schema, 3, held_out, QUICK, 0)
    assert torch.equal(found[~held_out], plain[~held_out])
    assert not torch.equal(found[held_out], plain[held_out])


def test_weighted_edges_are_seen():
    """The same graphs with all edges silenced are apart from themselves; with weights of one they are not."""
    graphs = PackedGraphs.from_data_list(law(60, seed=1, offset=2.0))
    others = PackedGraphs.from_data_list(law(60, seed=2, offset=2.0))
    edges = graphs.edge_index.shape[1]
    ones = measure_shift(WeightedGraphs(graphs, edge_weight=torch.ones(edges)), others, settings=TINY)
    bare = measure_shift(graphs, others, settings=TINY)
    assert ones.covariate.values == pytest.approx(bare.covariate.values, abs=1e-6)
    single = dataclasses.replace(QUICK, trials=1)
    silent = measure_shift(WeightedGraphs(graphs, edge_weight=torch.zeros(edges)), others, settings=single)
    assert at(silent, 1e-6) > 0.9
    faint = measure_shift(WeightedGraphs(graphs, node_weight=torch.zeros(len(graphs.x))), others, settings=single)
    assert at(faint, 1e-6) > 0.9


def test_weights_of_pyg_graphs_are_taken_along():
    listed = law(30, seed=1)
    for graph in listed:
        graph.edge_weight = torch.full((graph.edge_index.shape[1],), 0.25)
    pair = make_pair(listed, law(30, seed=2))
    first = int(pair.graphs.graphs.edge_counts[:30].sum())
    assert torch.equal(pair.graphs.edge_weight[:first], torch.full((first,), 0.25))
    assert bool((pair.graphs.edge_weight[first:] == 1).all())


def test_threshold_as_given_or_found():
    sides = law(60, seed=1), law(60, seed=2)
    settings = dataclasses.replace(QUICK, epsilon=math.inf, trials=1)
    found = measure_shift(*sides, settings=settings)
    assert found.epsilon == math.inf
    assert not found.calibrated
    assert found.covariate.mean == found.by_epsilon[-1]["covariate"] > 0.1
    assert [row["null"] for row in found.by_epsilon] == sorted(row["null"] for row in found.by_epsilon)
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert plain["epsilon"] == "inf"
    with pytest.raises(OutlandError, match="epsilon must be at least 0"):
        ShiftSettings(epsilon=-1.0)
    with pytest.raises(OutlandError, match="features must be from 1 to 8"):
        ShiftSettings(features=9)


def test_calibration_finds_the_largest_threshold():
    class Linear:
        def covariate(self, epsilon):
            return 1e7 * epsilon

    assert calibrated([Linear()]) == pytest.approx(1e-9, rel=1e-3)


def test_balance_by_weights_and_not_at_all():
    first, second = law(90, seed=1), law(60, seed=2, classes=(0, 1, 1, 2))
    for balance in ("reweight", "none"):
        found = measure_shift(first, second, settings=dataclasses.replace(QUICK, balance=balance, trials=1, most=90))
        assert found.graphs["compared"] == [90, 60]
        assert 0.35 < found.accuracy.mean < 0.65  # more graphs of one side do not make it the better guess
        assert found.covariate.mean < 0.2


def test_labels_alone_do_not_make_a_shift():
    """Class 2 is moved and rare on one side: with classes balanced the sets are equal, without they are not."""

    def mixed(seed, often):
        graphs = []
        for place in range(100):
            odd = place % 10 < often
            graphs += law(1, seed=1000 * seed + place, offset=2.0 * odd, classes=(int(odd),))
        return graphs

    first, second = mixed(1, 2), mixed(2, 8)
    settings = dataclasses.replace(QUICK, trials=1, most=100, steps=100)
    assert measure_shift(first, second, settings=settings).accuracy.mean < 0.68
    assert measure_shift(first, second, labels=False, settings=settings).accuracy.mean > 0.72


def test_identical_sets():
    graphs = law(60, seed=1)
    found = measure_shift(graphs, graphs, settings=QUICK)
    assert found.covariate.mean < 0.05
    assert 0.3 < found.accuracy.mean < 0.65
    assert found.sentence().startswith("The two sets are the same graphs: there is no shift between them")
    same = measure_shift(law(1) * 30, law(1) * 30, settings=dataclasses.replace(QUICK, trials=1))
    assert same.covariate.mean < 0.02


def test_the_same_graphs_are_known_in_any_order_and_by_labels_and_weights_too():
    graphs = law(30, seed=1)
    assert make_pair(graphs, graphs[::-1]).identical()
    assert not make_pair(graphs, law(30, seed=2)).identical()
    assert not make_pair(graphs, graphs[:25]).identical()
    other = [graph.clone() for graph in graphs]
    other[4].y = (other[4].y + 1) % 3
    assert not make_pair(graphs, other).identical()
    assert make_pair(graphs, other, labels=False).identical()
    packed = PackedGraphs.from_data_list(graphs)
    fainter = WeightedGraphs(packed, node_weight=torch.full((len(packed.x),), 0.5))
    assert not make_pair(fainter, packed).identical()


def test_few_graphs_and_one_trial_are_said():
    found = measure_shift(law(60, seed=1), law(60, seed=2), settings=TINY)
    assert "with fewer than 100 graphs a side (60 here) all numbers are rough" in found.notes
    assert "one trial shows no spread" in found.notes[-1]
    assert "With 60 graphs a side and one trial" in found.sentence()
    settings = dataclasses.replace(TINY, trials=2, most=120, steps=2, samples=100)
    many = measure_shift(law(120, seed=1), law(120, seed=2), settings=settings)
    assert not [note for note in many.notes if "rough" in note or "trial" in note]
    assert "With" not in many.sentence()


@pytest.mark.parametrize(
    ("covariate", "accuracy", "few", "words"),
    [
        ((0.6, 0.01, 0.0), (0.9, 0.5, 0.05), "", "There is a large covariate shift: about 60%"),
        ((0.6, 0.01, 0.0), (0.9, 0.5, 0.05), "with one trial", "With one trial that share is rough."),
        (
            (0.3, 0.1, 0.0),
            (0.55, 0.5, 0.05),
            "with 40 graphs a side",
            "With 40 graphs a side there is not enough to tell",
        ),
        ((0.3, 0.1, 0.0), (0.55, 0.5, 0.05), "", "do not agree on whether there is a covariate shift: GCS is 0.30"),
        ((0.01, 0.01, 0.0), (0.9, 0.5, 0.05), "with 40 graphs a side", "reach, as far as can be told with 40 graphs"),
        ((0.01, 0.01, 0.0), (0.5, 0.5, 0.05), "with 40 graphs a side", "With 40 graphs a side a small one could not"),
    ],
)
def test_the_verdict_says_no_more_than_both_measures_do(covariate, accuracy, few, words):
    told = verdict(covariate, accuracy, None, few)
    assert words in told
    assert ("There is a" in told) == (covariate[0] == 0.6)


def test_progress_is_shown_only_if_it_is_wanted(monkeypatch):
    seen = []
    monkeypatch.setattr(measure, "track", lambda work, words, total: (seen.append(total), work)[1])
    settings = dataclasses.replace(TINY, steps=2, samples=100)
    measure_shift(law(20, seed=1), law(20, seed=2), settings=settings, progress=False)
    assert seen == []
    measure_shift(law(20, seed=1), law(20, seed=2), settings=settings)
    assert seen == [6]


def test_the_threshold_comes_from_the_null_and_not_from_the_two_sets():
    """Sets far apart are so at every ε: found on them it would be the smallest, and the null 0 there."""
    found = measure_shift(law(80, seed=1), law(80, seed=2, offset=3.0), settings=QUICK)
    assert 0.0095 < found.null.mean <= 0.01 + 1e-9
    assert found.covariate.mean > 0.5
    assert at(found, 1e-15) > 0.1


def test_the_domain_classifier_is_the_mean_of_its_second_half(monkeypatch):
    pair = make_pair(law(30, seed=1), law(30, seed=2, offset=1.0))
    trial = draw_trial(pair, QUICK, 0)
    settings = dataclasses.replace(QUICK, steps=7)
    taken, step = [], torch.optim.SGD.step

    def watched(self, *rest):
        step(self, *rest)
        taken.append([one.detach().clone() for one in self.param_groups[0]["params"]])

    monkeypatch.setattr(torch.optim.SGD, "step", watched)
    everyone = torch.arange(len(trial.side))
    net = _trained(trial.sided(trial.side), pair.schema, 3, everyone, settings, 0, None)
    assert len(taken) == 7
    for mean, *values in zip(net.parameters(), *taken[3:], strict=True):
        torch.testing.assert_close(mean, torch.stack(values).mean(0))
    assert not all(torch.allclose(mean, last) for mean, last in zip(net.parameters(), taken[-1], strict=True))


def test_a_constant_feature():
    first, second = law(60, seed=1), law(60, seed=2, offset=2.0)
    for graph in [*first, *second]:
        graph.x = torch.cat([graph.x, torch.full((len(graph.x), 1), 3.0)], 1)
    assert at(measure_shift(first, second, settings=dataclasses.replace(QUICK, trials=1)), 1e-6) > 0.8
    for graph in [*first, *second]:
        graph.x = torch.ones(6, 2)
        ring = torch.arange(6)
        graph.edge_index = torch.stack([ring, ring.roll(-1)])
    assert measure_shift(first, second, settings=dataclasses.replace(QUICK, trials=1)).covariate.mean < 0.02


def test_a_class_missing_on_one_side():
    found = measure_shift(law(90, seed=1), law(60, seed=2, classes=(0, 1)), settings=TINY)
    assert "the second set has no graph of class 2: these are left out of the comparison" in found.notes
    assert found.graphs["compared"] == [60, 60]


def wide(count):
    graphs = law(count)
    for graph in graphs:
        graph.x = torch.cat([graph.x, graph.x], 1)
    return graphs


def whole(count):
    graphs = law(count)
    for graph in graphs:
        graph.x = graph.x.round().abs().long()
    return graphs


def with_edges(count):
    graphs = law(count)
    for graph in graphs:
        graph.edge_attr = torch.ones(graph.edge_index.shape[1], 1)
    return graphs


def broken(count):
    graphs = law(count)
    graphs[3].x[0, 0] = float("nan")
    return graphs


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (wide(30), "the first set has 3 node features and the second 6"),
        (whole(30), "node features are real numbers in one set and categories in the other"),
        (with_edges(30), "only one of the two sets has edge features"),
        (law(19), "the second set has 19 graphs; at least 20 are needed"),
        ([], "the second set: it has no graphs"),
        (broken(30), "graph 33, node 0: a feature is NaN or infinite"),
        ([3] * 30, "the second set: graph 0 is a int, not a PyG Data"),
    ],
)
def test_sets_that_cannot_be_compared(second, sentence):
    with pytest.raises(OutlandError, match=sentence):
        measure_shift(law(30, seed=1), second, settings=QUICK)
