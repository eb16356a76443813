"""The classifier."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data

from outland.estimators import BadInput, GraphClassifier
from outland.training.targets import NoTarget
from tests.models.cases import SMALL, bbbp


def quick(method: str = "erm", **rest) -> GraphClassifier:
    return GraphClassifier(method, epochs=1, backbone=SMALL, **rest)


def test_a_fit_learns_and_its_probabilities_are_probabilities(fitted):
    smiles, labels = bbbp()
    probabilities = fitted.predict_proba(smiles)
    assert probabilities.shape == (len(smiles), 2)
    assert np.allclose(probabilities.sum(1), 1)
    # One seed has 0.55 to 0.82, with a mean of 0.72 and a deviation of 0.06 over sixteen.
    others = [clone(fitted).set_params(random_state=seed).fit(smiles, labels) for seed in (1, 2, 3)]
    scores = [roc_auc_score(labels, model.predict_proba(smiles)[:, 1]) for model in (fitted, *others)]
    assert np.mean(scores) > 0.65
    classes = fitted.predict(smiles)
    assert ((probabilities[:, 1] > 0.5) == (classes == 1)).all()
    assert fitted.score(smiles, labels) == (classes == labels).mean()


def test_classes_may_be_words_and_more_than_two():
    smiles, labels = bbbp()
    names = [f"kind {(label + len(text)) % 3}" for label, text in zip(labels, smiles, strict=True)]
    model = quick(domain="random").fit(smiles, names)
    assert list(model.classes_) == ["kind 0", "kind 1", "kind 2"]
    assert model.predict_proba(smiles[:5]).shape == (5, 3)
    assert set(model.predict(smiles)) <= set(names)
    assert len(model.model_.calibration.temperature) == 1
    assert len(model.model_.calibration.offset) == 3


def test_labels_in_columns_of_objects_stay_what_they_are():
    smiles = [text for text in bbbp()[0] if len(text) < 30][:30]

    def classes(labels):
        return quick(domain="random", validation=0.4).fit(smiles[: len(labels)], labels).model_.classes

    for names in ([0, 1], ["no", "yes"], [False, True], [0.0, 1.0]):
        labels = names * 15
        columns = [classes(labels), classes(np.array(labels, dtype=object))]
        assert columns == [tuple(names), tuple(names)]
        assert {type(name) for column in columns for name in column} == {type(names[0])}
    for missing in (None, float("nan"), np.nan, np.float32("nan")):
        for labels in (["a", "b", missing], np.array([0, 1, missing], dtype=object)):
            with pytest.raises(BadInput, match="row 2 has no label"):
                classes(labels)
    with pytest.raises(BadInput, match="all text, all numbers or all true and false, not int, str"):
        classes([0, "1", 1])


def test_a_column_of_objects_is_scored_like_a_list():
    smiles, labels = bbbp()
    model = quick(domain="random").fit(smiles, np.array(labels, dtype=object))
    assert model.score(smiles, labels) == (model.predict(smiles) == labels).mean()


def test_graphs_of_ones_own():
    def ring(size: int) -> Data:
        ends = torch.arange(size)
        way = torch.stack([ends, (ends + 1) % size])
        return Data(x=torch.rand(size, 3), edge_index=torch.cat([way, way.flip(0)], 1))

    torch.manual_seed(0)
    graphs = [ring(3 + number % 29) for number in range(60)]
    model = quick("aia").fit(graphs, [number % 2 for number in range(60)])
    assert model.model_.spec.domain == "size"
    assert model.model_.kind == "graphs"
    assert model.predict_proba(graphs[:4]).shape == (4, 2)
    with pytest.raises(BadInput, match="trained on graphs, and these are molecules"):
        model.predict(["CCO"])
    with pytest.raises(BadInput, match="other node features"):
        model.predict([Data(x=torch.rand(3, 5), edge_index=graphs[0].edge_index)])
    with pytest.raises(BadInput, match="only molecules have a scaffold"):
        quick(domain="scaffold").fit(graphs, [0, 1] * 30)


def test_rare_classes_are_balanced_unless_that_is_not_wanted():
    smiles, _ = bbbp()
    rare = [int(row % 10 == 0) for row in range(len(smiles))]
    balanced = quick(domain="random").fit(smiles, rare).model_
    plain = quick(domain="random", class_weight=None).fit(smiles, rare).model_
    counts = balanced.training.class_counts
    assert plain.training.class_counts == plain.training.class_draws == counts
    assert balanced.training.class_draws == [max(counts), min(max(counts), 10 * min(counts))]
    assert plain.network.offset == (0.0,)
    drawn = balanced.training.class_draws
    assert balanced.network.offset == (pytest.approx(np.log(counts[1] / counts[0] * drawn[0] / drawn[1])),)
    assert (balanced.spec.train.class_balance, plain.spec.train.class_balance) == (True, False)


def test_a_class_that_is_held_out_as_a_whole_is_a_sentence():
    smiles, names = bbbp()[0], ["old"] * 250 + ["new"] * 48
    labels = [int(name == "new") for name in names]
    with pytest.raises(NoTarget, match="no training row is of class number 1: hold out fewer rows, or take the domain"):
        quick(domain="environment", validation=0.1).fit(smiles, labels, environments=names)
    assert issubclass(NoTarget, ValueError)
