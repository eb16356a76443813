import dataclasses

import pytest
import torch

from outland.shift import Estimate, measure_shift
from outland.shift.result import describe_shift
from tests.shift.cases import QUICK, TINY, random_graphs


def test_a_correlation_shift_is_told_from_a_covariate_one():
    """Two environments of graphs; which class goes with which turns round."""

    def with_labels(seed, order):
        graphs = []
        for number in range(200):
            (graph,) = random_graphs(1, seed=1000 * seed + number, offset=1.5 if number % 2 else -1.5)
            graph.y = torch.tensor([order[number % 2] if number % 20 > 1 else number // 20 % 2])
            graphs.append(graph)
        return graphs

    settings = dataclasses.replace(QUICK, trials=1, most=200, features=2, steps=100)
    result = measure_shift(with_labels(1, (0, 1)), with_labels(2, (1, 0)), settings=settings)
    assert result.correlation.mean > 0.5
    assert result.correlation_null.mean < 0.3
    assert result.covariate.mean < 0.2
    assert "correlation" not in result.sentence()  # of one trial nothing is said
    thrice = dataclasses.replace(result, correlation=Estimate.of(3 * result.correlation.values))
    assert "There is a correlation shift: where both sets are" in thrice.sentence()


def test_identical_sets():
    graphs = random_graphs(60, seed=1)
    result = measure_shift(graphs, graphs, settings=QUICK)
    assert result.covariate.mean < 0.05
    assert 0.3 < result.accuracy.mean < 0.65
    assert result.sentence().startswith("The two sets are the same graphs: there is no shift between them")
    same = measure_shift(random_graphs(1) * 30, random_graphs(1) * 30, settings=dataclasses.replace(QUICK, trials=1))
    assert same.covariate.mean < 0.02


def test_few_graphs_and_one_trial_are_said():
    result = measure_shift(random_graphs(60, seed=1), random_graphs(60, seed=2), settings=TINY)
    assert "with fewer than 100 graphs a side (60 here) all numbers are rough" in result.notes
    assert "one trial shows no spread" in result.notes[-1]
    assert "With 60 graphs a side and one trial" in result.sentence()
    settings = dataclasses.replace(TINY, trials=2, most=120, steps=2, samples=100)
    many = measure_shift(random_graphs(120, seed=1), random_graphs(120, seed=2), settings=settings)
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
def test_a_shift_is_claimed_only_where_both_measures_agree(covariate, accuracy, few, words):
    sentence = describe_shift(covariate, accuracy, None, few)
    assert words in sentence
    assert ("There is a" in sentence) == (covariate[0] == 0.6)
