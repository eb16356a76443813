"""The classifier."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from torch_geometric.data import Data

from outland.chem.featurizer import parse, rdkit
from outland.estimators import BadInput, GraphClassifier, UnusedRowsWarning
from outland.estimators.inputs import read_inputs
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


def test_a_prediction_does_not_depend_on_how_a_smiles_is_written(fitted):
    """Ten stereo-isomers, each in five random ways; a network tells R from S, and E from Z."""
    pairs = [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("CC(C)Cc1ccc(cc1)[C@H](C)C(=O)O", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O"),
        ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"),
        ("C[C@@H](O)[C@H](O)[C@H](C)O", "C[C@@H](O)[C@@H](O)[C@H](C)O"),
        ("OC(=O)/C=C/C(=O)O", "OC(=O)/C=C\\C(=O)O"),
    ]
    written = [
        [list(rdkit().MolToRandomSmilesVect(parse(smiles), 5, randomSeed=3)) for smiles in pair] for pair in pairs
    ]
    texts = [text for pair in written for isomer in pair for text in isomer]
    predicted = fitted.predict_proba(texts)[:, 1].reshape(len(pairs), 2, 5)
    assert len(set(texts)) > 40
    assert np.ptp(predicted, axis=2).max() < 1e-5
    assert np.abs(predicted[:, 0] - predicted[:, 1]).min() > 1e-4


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
    for missing in (None, float("nan"), np.float32("nan")):
        for names in (["a", "b"], np.array([0, 1], dtype=object)):
            with pytest.warns(UnusedRowsWarning, match="1 of 21 rows have no label .*; the first: row 20"):
                assert classes([*([*names] * 10), missing]) == tuple(names)
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


def test_a_weight_by_class_is_drawn_by_and_corrected_for(tmp_path):
    smiles, _ = bbbp()
    rare = [int(row % 10 == 0) for row in range(len(smiles))]
    model = quick(domain="random", class_weight={1: 4.5}).fit(smiles, rare)
    training = model.model_.training
    assert training.class_draws == [training.class_counts[0], 4.5 * training.class_counts[1]]
    assert model.model_.network.offset == (pytest.approx(-np.log(4.5)),)
    assert model.model_.spec.key != quick(domain="random", class_weight=None).fit(smiles, rare).model_.spec.key
    model.save(tmp_path / "model")
    loaded = GraphClassifier.load(tmp_path / "model")
    assert loaded.class_weight == {0: 1.0, 1: 4.5}
    assert (clone(loaded).fit(smiles, rare).predict_proba(smiles) == model.predict_proba(smiles)).all()
    with pytest.raises(BadInput, match="for one target"):
        quick(class_weight={1: 2}).fit(smiles, np.stack([rare, rare], 1))


def test_weights_of_rows_change_what_is_learned():
    smiles = [text for text in bbbp()[0] if "N" in text or "n" in text or "O" in text]
    labels = [int("O" in text) for text in smiles]
    learner = quick(domain="random", class_weight=None).set_params(epochs=4, method_params={"lr": 0.01})
    even = clone(learner).fit(smiles, labels, [1.0] * len(smiles))
    heavy = clone(learner).fit(smiles, labels, [1.0 + 200 * (1 - label) for label in labels])
    assert heavy.model_.network.offset == (0.0,)  # weights say which rows there are; nothing takes them back
    logits = [model.model_.predict(read_inputs(smiles).graphs).outputs.mean() for model in (even, heavy)]
    assert logits[0] > logits[1] + 1


def test_several_targets_with_gaps(tmp_path):
    smiles, labels = bbbp()
    aromatic = [float("c1" in text) for text in smiles]
    y = np.stack([np.array(labels, dtype=float), np.array(aromatic)], 1)
    y[::7, 0] = np.nan
    y[3] = np.nan
    with pytest.warns(UnusedRowsWarning, match="1 of 298 rows have no label"):
        model = quick(domain="random").set_params(epochs=5, method_params={"lr": 0.01}).fit(smiles, y)
    assert [classes.tolist() for classes in model.classes_] == [[0.0, 1.0]] * 2
    probabilities, called = model.predict_proba(smiles), model.predict(smiles)
    assert probabilities.shape == called.shape == (298, 2)
    assert ((probabilities > 0.5) == (called == 1)).all()
    assert roc_auc_score(y[y[:, 1] >= 0, 1], probabilities[y[:, 1] >= 0, 1]) > 0.7
    known = ~np.isnan(y)
    right = ((called == y) | ~known).all(1)[known.any(1)]
    assert model.score(smiles, y) == right.mean()
    assert model.model_.targets == ["label0", "label1"]
    whole = np.stack([labels, np.array(aromatic, dtype=int)], 1)
    scores = cross_val_score(quick(domain="random"), smiles, whole, cv=2, scoring="roc_auc", error_score="raise")
    assert ((scores > 0) & (scores < 1)).all()
    loaded = GraphClassifier.load(model.save(tmp_path / "model"))
    assert (loaded.predict(smiles[:5]) == called[:5]).all()


def test_a_class_that_is_held_out_as_a_whole_is_a_sentence():
    smiles, names = bbbp()[0], ["old"] * 250 + ["new"] * 48
    labels = [int(name == "new") for name in names]
    with pytest.raises(NoTarget, match="no training row is of class '1': hold out fewer rows, or take the domain"):
        quick(domain="environment", validation=0.1).fit(smiles, labels, environments=names)
    assert issubclass(NoTarget, ValueError)
