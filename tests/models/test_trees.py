"""Forests and boosting as tensors, beside scikit-learn's own predictions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from outland.errors import OutlandError
from outland.graphs import Task
from outland.models.trees import fit_boosting, fit_forest
from tests.models.cases import vectors

NAN = float("nan")
BINARY, NUMBERS = Task("binary", 1, "rocauc"), Task("regression", 1, "rmse")
FEW = {"trees": 25}


def matrix(graphs):
    """What the trees read, as scikit-learn takes it."""
    values = graphs.extra["descriptors"].numpy()
    bits = np.unpackbits(graphs.extra["fingerprint"].numpy(), axis=1)
    return np.concatenate([bits, np.where(np.isnan(values), -1e30, values)], 1).astype(np.float32)


def labelled(rows, seed=0):
    """Molecules whose first descriptor and first bit decide."""
    graphs = vectors(rows, seed)
    score = graphs.extra["descriptors"][:, 0].nan_to_num(-1) + (graphs.extra["fingerprint"][:, 0] >> 7)
    noise = 0.5 * torch.randn(rows, generator=torch.Generator().manual_seed(seed + 1))
    return graphs, score + noise


def of_table(graphs, y):
    return replace(graphs, y=y)


def test_a_forest_says_what_scikit_learn_says():
    graphs, score = labelled(300)
    y = (score > 0).float()
    forest = fit_forest(of_table(graphs, y[:, None]), BINARY, 3, **FEW)
    same = RandomForestClassifier(25, min_samples_leaf=1, max_depth=64, random_state=3).fit(matrix(graphs), y.int())
    new, _ = labelled(700, 5)
    p = forest.outputs(new).double().sigmoid().numpy()[:, 0]
    expected = same.predict_proba(matrix(new))[:, 1]
    assert abs((26 * p - 0.5) / 25 - expected).max() < 1e-6
    assert expected.std() > 0.05


def test_a_forest_of_numbers_and_of_classes_says_what_scikit_learn_says():
    graphs, score = labelled(300)
    new, _ = labelled(100, 5)
    forest = fit_forest(of_table(graphs, score[:, None]), NUMBERS, 3, **FEW)
    settings = {"n_estimators": 25, "min_samples_leaf": 1, "max_depth": 64, "random_state": 3}
    numbers = RandomForestRegressor(**settings, max_features=1 / 3).fit(matrix(graphs), score.double())
    assert abs(forest.outputs(new)[:, 0].numpy() - numbers.predict(matrix(new))).max() < 1e-6
    y = torch.bucketize(score, torch.tensor([-0.5, 0.5]))
    classes = fit_forest(of_table(graphs, y), Task("multiclass", 3, "accuracy"), 3, **FEW)
    same = RandomForestClassifier(**settings).fit(matrix(graphs), y)
    p = classes.outputs(new).double().exp().numpy()
    assert abs((26 * p - 1 / 3) / 25 - same.predict_proba(matrix(new))).max() < 1e-6


@pytest.mark.parametrize("classes", [2, 3])
def test_boosting_says_what_scikit_learn_says(classes):
    graphs, score = labelled(200)
    new, _ = labelled(100, 5)
    settings = {"n_estimators": 25, "learning_rate": 0.05, "max_depth": 5, "min_samples_leaf": 3}
    settings |= {"max_features": "sqrt", "subsample": 0.7, "random_state": 3}
    numbers = fit_boosting(of_table(graphs, score[:, None]), NUMBERS, 3, **FEW)
    same = GradientBoostingRegressor(**settings).fit(matrix(graphs), score.double())
    assert abs(numbers.outputs(new)[:, 0].numpy() - same.predict(matrix(new))).max() < 1e-6
    y = torch.bucketize(score, torch.linspace(-0.5, 0.5, classes - 1))
    boosting = fit_boosting(of_table(graphs, y), Task("multiclass", classes, "accuracy"), 3, **FEW)
    expected = GradientBoostingClassifier(**settings).fit(matrix(graphs), y).predict_proba(matrix(new))
    assert abs(boosting.outputs(new).double().exp().numpy() - expected).max() < 1e-6
    if classes == 2:
        binary = fit_boosting(of_table(graphs, y[:, None].float()), BINARY, 3, **FEW)
        assert abs(binary.outputs(new)[:, 0].double().sigmoid().numpy() - expected[:, 1]).max() < 1e-6


def test_boosting_on_too_few_rows_for_any_split_says_their_mean():
    """A tree grows on 70 % of the rows, here three, and a leaf has three or more."""
    graphs, _ = labelled(5)
    boosting = fit_boosting(of_table(graphs, torch.arange(5.0)[:, None]), NUMBERS, 0, **FEW)
    boosting.check()
    assert torch.allclose(boosting.outputs(graphs)[:, 0], torch.tensor(2.0), atol=1.0)
    assert boosting.outputs(graphs).unique().numel() == 1
    classes = fit_boosting(of_table(graphs, torch.tensor([0, 0, 1, 1, 2])), Task("multiclass", 3, "accuracy"), 0, **FEW)
    assert torch.allclose(classes.outputs(graphs).exp().sum(1), torch.ones(5))


@pytest.mark.parametrize("fit", [fit_forest, fit_boosting])
def test_each_target_learns_from_the_rows_where_it_is_known(fit):
    graphs, score = labelled(300)
    y = torch.stack([(score > 0).float(), (score < 0.3).float(), torch.ones(300)], 1)
    y[::2, 1] = NAN
    several = fit(of_table(graphs, y), Task("binary", 3, "rocauc"), 0, **FEW)
    several.check()
    alone = fit(of_table(graphs.select(torch.arange(1, 300, 2)), y[1::2, 1:2]), BINARY, 0, **FEW)
    new, _ = labelled(50, 5)
    assert torch.allclose(several.outputs(new)[:, 1], alone.outputs(new)[:, 0])
    constant = several.outputs(new)[:, 2]
    assert (constant.max() == constant.min() and constant.min() > 1).item()


def test_weights_of_rows_and_classes_count():
    graphs, score = labelled(300)
    table = of_table(graphs, (score > 1).float()[:, None])
    plain, balanced = (fit_forest(table, BINARY, 0, class_weight=weight, **FEW) for weight in (None, "balanced"))
    share = float(table.y.mean())
    assert plain.outputs(graphs).sigmoid().mean() == pytest.approx(share, abs=0.05)
    assert balanced.outputs(graphs).mean() > plain.outputs(graphs).mean() + 0.2
    weight = np.where(table.y[:, 0] == 1, 5.0, 1.0)
    assert fit_boosting(table, BINARY, 0, sample_weight=weight, **FEW).outputs(graphs).mean() > 0.3 + (
        fit_boosting(table, BINARY, 0, **FEW).outputs(graphs).mean()
    )


def test_counts_are_read_after_the_descriptors():
    """A label that one count decides, and nothing else; trees that have not seen counts do without them."""
    graphs = vectors(200)
    decisive = torch.randint(0, 3, (200, 1), generator=torch.Generator().manual_seed(1))
    table = of_table(graphs, (decisive > 0).float())
    counted = replace(table, extra={**graphs.extra, "counts": torch.cat([decisive, decisive * 0], 1).byte()})
    for fit in (fit_forest, fit_boosting):
        model, without = fit(counted, BINARY, 0, trees=30), fit(table, BINARY, 0, trees=30)
        assert (model.numbers, without.numbers) == (14, 12)
        assert torch.equal(without.outputs(counted), without.outputs(table))
        others = replace(vectors(200, 7), extra={**vectors(200, 7).extra, "counts": counted.extra["counts"]})
        outputs, is_positive = model.outputs(others), decisive > 0
        assert outputs[is_positive].mean() > outputs[~is_positive].mean() + 0.1


def test_molecules_without_vectors_are_refused():
    graphs, score = labelled(60)
    table = of_table(graphs, score[:, None])
    with pytest.raises(OutlandError, match="these graphs have none"):
        fit_forest(replace(table, extra={}), NUMBERS, 0)
    forest = fit_forest(table, NUMBERS, 0, trees=3)
    with pytest.raises(OutlandError, match="have 5 descriptors, and the model reads 12"):
        forest.outputs(vectors(3, descriptors=5))
    counted = replace(table, extra={**table.extra, "counts": torch.ones(60, 4, dtype=torch.uint8)})
    with pytest.raises(OutlandError, match="have 15 descriptors and counts, and the model reads 16"):
        fit_forest(counted, NUMBERS, 0, trees=3).outputs(
            replace(counted, extra={**counted.extra, "counts": counted.extra["counts"][:, 1:]})
        )
    with pytest.raises(OutlandError, match="all rows are of one class"):
        fit_forest(of_table(graphs, torch.ones(60).long()), Task("multiclass", 3, "accuracy"), 0)


def changed(trees, name, position, value):
    tensor = getattr(trees, name).clone()
    tensor[position] = value
    return replace(trees, **{name: tensor})


@pytest.mark.parametrize(
    ("name", "position", "value", "words"),
    [
        ("child", 0, 0, "reached in two ways, or in none"),
        ("child", 2, 1, "whose child is not after it"),
        ("child", 0, 10**6, "whose child is not after it"),
        ("child", 0, 3, "reached in two ways, or in none"),
        ("child", 0, -5, "whose child is not after it"),
        ("feature", 0, 2060, "a feature that there is not"),
        ("feature", 0, -1, "a feature that there is not"),
        ("threshold", 0, NAN, "is not finite"),
        ("value", (-1, 0), float("inf"), "is not finite"),
        ("root", 1, -1, "a root that is no node"),
        ("root", 1, 0, "reached in two ways, or in none"),
    ],
)
def test_trees_that_are_none_are_refused(name, position, value, words):
    graphs, score = labelled(100)
    forest = fit_forest(of_table(graphs, score[:, None]), NUMBERS, 0, trees=2)
    forest.check()
    with pytest.raises(ValueError, match=words):
        replace(forest, trees=changed(forest.trees, name, position, value)).check()


def test_a_chain_without_end_is_refused():
    graphs, score = labelled(100)
    forest = fit_forest(of_table(graphs, score[:, None]), NUMBERS, 0, trees=1)
    nodes = 201
    child = torch.arange(nodes, dtype=torch.int32)
    child[:-1:2] += 1  # each even node has the two after it as children
    chain = replace(
        forest.trees,
        feature=torch.zeros(nodes, dtype=torch.int16),
        threshold=torch.zeros(nodes),
        child=child,
        value=torch.zeros(nodes, 1),
    )
    with pytest.raises(ValueError, match="deeper than 64 levels"):
        replace(forest, trees=chain).check()
    with pytest.raises(ValueError, match="add to other outputs"):
        replace(forest, column=forest.column + 1).check()
