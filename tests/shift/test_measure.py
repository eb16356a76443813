import dataclasses
import json
import math

import pytest
import torch

from outland.errors import OutlandError
from outland.estimators.inputs import read_inputs
from outland.graphs import PackedGraphs
from outland.models import load_model
from outland.shift import ShiftSettings, WeightedGraphs, measure, measure_shift
from outland.shift.measure import calibrate_epsilon, shift_from_training
from outland.shift.trials import class_weights
from outland.training import RunSpec, run
from outland.training.run_folder import RunFolder
from tests.shift.cases import QUICK, TINY, gcs_at, random_graphs

ROUGH = ShiftSettings(trials=1, most=60, folds=3, steps=20, samples=1000)


@pytest.fixture(scope="module")
def far():
    """Two sets far apart, measured."""
    return measure_shift(random_graphs(80, seed=1), random_graphs(80, seed=2, offset=3.0), settings=QUICK)


def test_far_sets_are_far_and_equal_ones_are_not(far):
    assert far.covariate.mean > 0.5
    assert gcs_at(far, 1e-6) > 0.9
    assert far.null.mean <= 0.01 + 1e-9
    assert far.calibrated
    assert far.accuracy.mean > 0.97
    assert "large covariate shift" in far.sentence()
    near = measure_shift(random_graphs(80, seed=1), random_graphs(80, seed=2), settings=QUICK)
    assert near.covariate.mean < 0.08
    assert 0.35 < near.accuracy.mean < 0.65
    assert "No covariate shift" in near.sentence()
    assert near.graphs == {"given": [80, 80], "compared": [80, 80]}


def test_size_is_seen_though_every_node_looks_alike():
    small, large = random_graphs(60, seed=1, size=5), random_graphs(60, seed=2, size=20)
    for graph in [*small, *large]:
        graph.x = torch.ones(len(graph.x), 1)
    result = measure_shift(small, large, settings=dataclasses.replace(QUICK, trials=1))
    assert gcs_at(result, 1e-6) > 0.9


def test_one_seed_decides_everything_and_nothing_else():
    sides = random_graphs(60, seed=1), random_graphs(60, seed=2, offset=0.5)
    results = []
    for seed in (4, 4, 5):
        torch.rand(3)
        results.append(measure_shift(*sides, settings=TINY, seed=seed).by_epsilon)
    assert results[0] == results[1]
    assert results[0] != results[2]


def test_weighted_edges_are_seen():
    """The same graphs with all edges silenced are apart from themselves; with weights of one they are not."""
    graphs = PackedGraphs.from_data_list(random_graphs(60, seed=1, offset=2.0))
    others = PackedGraphs.from_data_list(random_graphs(60, seed=2, offset=2.0))
    edges = graphs.edge_index.shape[1]
    ones = measure_shift(WeightedGraphs(graphs, edge_weight=torch.ones(edges)), others, settings=TINY)
    bare = measure_shift(graphs, others, settings=TINY)
    assert ones.covariate.values == pytest.approx(bare.covariate.values, abs=1e-6)
    single = dataclasses.replace(QUICK, trials=1)
    silent = measure_shift(WeightedGraphs(graphs, edge_weight=torch.zeros(edges)), others, settings=single)
    assert gcs_at(silent, 1e-6) > 0.9
    faint = measure_shift(WeightedGraphs(graphs, node_weight=torch.zeros(len(graphs.x))), others, settings=single)
    assert gcs_at(faint, 1e-6) > 0.9


def test_threshold_as_given():
    sides = random_graphs(60, seed=1), random_graphs(60, seed=2)
    settings = dataclasses.replace(QUICK, epsilon=math.inf, trials=1)
    result = measure_shift(*sides, settings=settings)
    assert result.epsilon == math.inf
    assert not result.calibrated
    assert result.covariate.mean == result.by_epsilon[-1]["covariate"] > 0.1
    assert [row["null"] for row in result.by_epsilon] == sorted(row["null"] for row in result.by_epsilon)
    plain = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert plain["epsilon"] == "inf"


def test_calibration_finds_the_largest_threshold():
    class Linear:
        def covariate(self, epsilon):
            return 1e7 * epsilon

    assert calibrate_epsilon([Linear()]) == pytest.approx(1e-9, rel=1e-3)


def test_balance_by_weights_and_not_at_all():
    first, second = random_graphs(90, seed=1), random_graphs(60, seed=2, classes=(0, 1, 1, 2))
    for balance in ("reweight", "none"):
        result = measure_shift(first, second, settings=dataclasses.replace(QUICK, balance=balance, trials=1, most=90))
        assert result.graphs["compared"] == [90, 60]
        assert 0.35 < result.accuracy.mean < 0.65  # more graphs of one side do not make it the better guess
        assert result.covariate.mean < 0.2


def test_labels_alone_do_not_make_a_shift():
    """Class 2 is moved and rare on one side: with classes balanced the sets are equal, without they are not."""

    def mixed(seed, often):
        graphs = []
        for number in range(100):
            odd = number % 10 < often
            graphs += random_graphs(1, seed=1000 * seed + number, offset=2.0 * odd, classes=(int(odd),))
        return graphs

    first, second = mixed(1, 2), mixed(2, 8)
    settings = dataclasses.replace(QUICK, trials=1, most=100, steps=100)
    assert measure_shift(first, second, settings=settings).accuracy.mean < 0.68
    assert measure_shift(first, second, labels=False, settings=settings).accuracy.mean > 0.72


def test_progress_is_shown_only_if_it_is_wanted(monkeypatch):
    seen = []
    monkeypatch.setattr(measure, "track", lambda work, words, total: (seen.append(total), work)[1])
    settings = dataclasses.replace(TINY, steps=2, samples=100)
    measure_shift(random_graphs(20, seed=1), random_graphs(20, seed=2), settings=settings, progress=False)
    assert seen == []
    measure_shift(random_graphs(20, seed=1), random_graphs(20, seed=2), settings=settings)
    assert seen == [6]


def test_the_threshold_comes_from_the_null_and_not_from_the_two_sets(far):
    """Sets far apart are so at every ε: chosen by them it would be the smallest, and the null 0 there."""
    assert 0.0095 < far.null.mean <= 0.01 + 1e-9
    assert far.covariate.mean > 0.5
    assert gcs_at(far, 1e-15) > 0.1


def test_a_constant_feature():
    first, second = random_graphs(60, seed=1), random_graphs(60, seed=2, offset=2.0)
    for graph in [*first, *second]:
        graph.x = torch.cat([graph.x, torch.full((len(graph.x), 1), 3.0)], 1)
    assert gcs_at(measure_shift(first, second, settings=dataclasses.replace(QUICK, trials=1)), 1e-6) > 0.8
    for graph in [*first, *second]:
        graph.x = torch.ones(6, 2)
        ring = torch.arange(6)
        graph.edge_index = torch.stack([ring, ring.roll(-1)])
    assert measure_shift(first, second, settings=dataclasses.replace(QUICK, trials=1)).covariate.mean < 0.02


def test_a_class_missing_on_one_side():
    result = measure_shift(random_graphs(90, seed=1), random_graphs(60, seed=2, classes=(0, 1)), settings=TINY)
    assert "the second set has no graph of class 2: these are left out of the comparison" in result.notes
    assert result.graphs["compared"] == [60, 60]


def test_reweighted_classes_weigh_the_loss(monkeypatch):
    """What the domain classifier is given are the weights of the sides that it learns."""
    sides = random_graphs(40, seed=1, classes=(0, 0, 0, 1)), random_graphs(40, seed=2, classes=(0, 1, 1, 1))
    given = []

    def recorded(graphs, schema, classes, held_out, settings, seed, weight):
        given.append((graphs.graphs.environment, graphs.graphs.y, weight))
        return torch.randn(len(graphs), 2), torch.ones(len(graphs), dtype=torch.bool)

    monkeypatch.setattr(measure, "domain_features", recorded)
    settings = dataclasses.replace(QUICK, trials=1, most=60, balance="reweight", samples=100)
    measure_shift(*sides, settings=settings, progress=False)
    assert len(given) == 6
    for side, classes, weight in given:
        torch.testing.assert_close(weight, class_weights(side, classes))
    assert given[0][2].unique().numel() > 1


def test_it_is_measured_from_the_training_graphs_that_a_model_keeps(fitted):
    graphs = read_inputs(["C" * size + "O" for size in range(1, 61)]).graphs
    model = fitted.model_
    result = shift_from_training(model, graphs, ROUGH, seed=5)
    expected = measure_shift(model.reference, graphs, schema=model.schema, labels=False, settings=ROUGH, seed=5)
    assert (result.covariate, result.null, result.accuracy) == (expected.covariate, expected.null, expected.accuracy)
    assert result.graphs["given"] == [268, 60] == [model.training.graphs["train"], len(graphs)]
    assert result.correlation is None
    with pytest.raises(OutlandError, match="at least 20"):
        shift_from_training(model, graphs.select(torch.arange(9)), ROUGH)


def test_training_graphs_of_a_benchmark_are_loaded_again(motif, cache, tmp_path):
    spec = RunSpec.from_words("motif", "erm", ["data.limit=60", "backbone.width=8", "train.epochs=1"])
    run(spec, tmp_path, device="cpu", cache=cache)
    model = load_model(RunFolder(tmp_path, spec).path)
    limited = motif.limit(60, spec.data.seed)
    result = shift_from_training(model, limited.part("test"), ROUGH, cache=cache)
    kept = shift_from_training(dataclasses.replace(model, reference=limited.part("train")), limited.part("test"), ROUGH)
    assert model.reference is None
    assert result.covariate == kept.covariate
    assert result.graphs["given"] == [60, 60]
