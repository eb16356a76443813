"""What the estimators share: parameters, fitting, saving."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from outland.chem.featurizer import parse
from outland.errors import OutlandError
from outland.estimators import BadInput, GraphClassifier, GraphRegressor, UnusedRowsWarning, scaffold_groups
from outland.estimators.html import fitted_html
from outland.shift import ShiftSettings
from tests.cli.cases import guide_example
from tests.models.cases import SMALL, bbbp


def quick(method: str = "erm", **rest) -> GraphClassifier:
    return GraphClassifier(method, epochs=1, backbone=SMALL, **rest)


def test_parameters_survive_clone():
    model = GraphClassifier("aia", domain="size", method_params={"gamma": 0.3})
    copy = clone(model).set_params(method_params={"gamma": 0.3, "lambda_s": 0.7}, domain="random")
    assert copy.method_params == {"gamma": 0.3, "lambda_s": 0.7}
    assert model.method_params == {"gamma": 0.3}
    assert (copy.get_params()["domain"], model.get_params()["domain"]) == ("random", "size")
    with pytest.raises(ValueError, match=r"Invalid parameter 'epoch' for estimator GraphClassifier"):
        model.set_params(epoch=1)
    with pytest.raises(OutlandError, match=r"unknown setting of method 'gama'. Did you mean 'gamma'"):
        quick("aia", method_params={"gama": 1}).fit(*bbbp())


def test_setting_what_is_set_changes_nothing():
    for model in (GraphClassifier("aia"), GraphClassifier("erm", method_params={"lr": 0.1}, train={"batch_size": 9})):
        before = model.get_params(deep=False)
        assert model.set_params(**model.get_params()).get_params(deep=False) == before


@pytest.mark.parametrize("estimator", [GraphClassifier, GraphRegressor])
def test_old_names_of_parameters_still_work_and_say_so(estimator):
    with pytest.warns(FutureWarning, match="'shift' is now called 'domain'") as told:
        model = estimator("erm", shift="random")
    assert model.domain == "random"
    assert told[0].filename == __file__
    with pytest.warns(FutureWarning, match="'settings' is now called 'method_params'"):
        model = estimator("erm", settings={"lr": 0.1})
    assert model.method_params == {"lr": 0.1}
    assert {"shift", "settings"}.isdisjoint(model.get_params())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(model).method_params == {"lr": 0.1}
    with pytest.raises(TypeError, match=f"{estimator.__name__} has no parameter 'colour'"):
        estimator("erm", colour="red")


def test_the_search_space_is_the_methods_own():
    space = GraphClassifier("aia").search_space()
    assert list(space) == ["method_params"]
    assert {params["lr"] for params in space["method_params"]} == {1e-2, 5e-3, 1e-3}
    assert len({params["gamma"] for params in space["method_params"]}) == 9
    changed = GraphClassifier("aia", method_params={"drop": 0.4, "lr": 1}).search_space()["method_params"]
    assert changed == [{"drop": 0.4, **params} for params in space["method_params"]]  # what is set stays
    assert GraphClassifier("erm").search_space() == {"method_params": [{"lr": 1e-2}, {"lr": 1e-3}, {"lr": 1e-4}]}


def test_cross_validation_and_grid_search_on_300_molecules():
    smiles, labels = bbbp()
    scores = cross_val_score(quick(), smiles, labels, cv=3, scoring="roc_auc", error_score="raise")
    assert scores.shape == (3,)
    assert ((scores > 0) & (scores < 1)).all()
    grid = {"model__method_params": [{"lr": 1e-2}, {"lr": 5e-3}]}
    pipeline = Pipeline(
        [("strip", FunctionTransformer(lambda rows: [row.strip() for row in rows])), ("model", quick("aia"))]
    )
    search = GridSearchCV(pipeline, grid, cv=2, scoring="roc_auc", error_score="raise").fit(smiles, labels)
    assert search.best_params_["model__method_params"]["lr"] in (1e-2, 5e-3)
    assert search.predict(smiles[:4]).shape == (4,)
    assert len(set(search.cv_results_["mean_test_score"])) == 2  # the setting reached the method


def test_folds_by_scaffold_share_none():
    smiles, labels = bbbp()
    groups = scaffold_groups(smiles)
    assert len(set(groups.tolist())) == 205
    for train, test in GroupKFold(3).split(smiles, labels, groups):
        assert not set(groups[train]) & set(groups[test])
    scores = cross_val_score(quick(), smiles, labels, groups=groups, cv=GroupKFold(2), error_score="raise")
    assert scores.shape == (2,)


def test_molecules_strings_and_columns_say_the_same(fitted):
    smiles, _ = bbbp()
    expected = fitted.predict_proba(smiles[:9])
    assert (fitted.predict_proba([parse(text) for text in smiles[:9]]) == expected).all()
    assert (fitted.predict_proba(np.array(smiles[:9], dtype=object)[:, None]) == expected).all()


def test_equal_seeds_fit_equal_models():
    smiles, labels = bbbp()
    first, same, other = (quick(random_state=seed).fit(smiles[:80], labels[:80]) for seed in (3, 3, 4))
    assert (first.predict_proba(smiles) == same.predict_proba(smiles)).all()
    assert (first.predict_proba(smiles) != other.predict_proba(smiles)).any()
    assert first.model_.spec.key == same.model_.spec.key != other.model_.spec.key


@pytest.mark.parametrize("more", [{}, {"class_weight": None, "validation": 0.3, "domain": "size"}])
def test_a_clone_of_what_was_loaded_is_trained_alike(more, tmp_path):
    smiles, labels = bbbp()
    model = quick("aia", random_state=5, method_params={"gamma": 0.3}, train={"batch_size": 50}, **more)
    model.fit(smiles[:80], labels[:80]).save(tmp_path / "model")
    loaded = GraphClassifier.load(tmp_path / "model")
    again = clone(loaded).fit(smiles[:80], labels[:80])
    assert again.model_.spec == model.model_.spec == loaded.model_.spec
    assert (again.predict_proba(smiles) == model.predict_proba(smiles)).all()


def test_a_method_in_a_file_of_its_own_is_saved_with_the_model(tmp_path):
    (tmp_path / "yours.py").write_text(guide_example())
    smiles, labels = bbbp()
    model = quick(f"{tmp_path / 'yours.py'}:Yours", method_params={"strength": 0.5}).fit(smiles[:80], labels[:80])
    model.save(tmp_path / "model")
    (tmp_path / "yours.py").unlink()
    with pytest.raises(OutlandError, match=r"say so with --trust-code \(trust_code=True\)"):
        GraphClassifier.load(tmp_path / "model")
    loaded = GraphClassifier.load(tmp_path / "model", trust_code=True)
    assert (loaded.predict_proba(smiles) == model.predict_proba(smiles)).all()
    again = clone(loaded).fit(smiles[:80], labels[:80])
    assert (again.predict_proba(smiles) == model.predict_proba(smiles)).all()
    assert again.model_.spec.key == model.model_.spec.key


def test_the_record_of_a_fit_has_its_curves(fitted):
    record = fitted.record_
    assert len(record.curves) == 6
    assert record.selection["ood_val"]["epoch"] == fitted.model_.training.best_epoch
    assert record.key == fitted.model_.spec.key
    assert record.data["sizes"] == fitted.model_.training.graphs


def test_environments_reach_the_methods_that_ask():
    smiles, labels = bbbp()
    names = [f"lab {row % 4}" for row in range(len(smiles))]
    assert quick("vrex").fit(smiles, labels).predict(smiles[:2]).shape == (2,)
    assert quick("groupdro", domain="environment", validation=0.24).fit(smiles, labels, environments=names)
    with pytest.raises(BadInput, match="2 environments for 298 rows"):
        quick().fit(smiles, labels, environments=["a", "b"])


def test_a_fitted_model_measures_shifts(fitted):
    smiles, _ = bbbp()
    settings = ShiftSettings(trials=1, most=60, folds=3, steps=20, samples=1000, batch_size=32)
    same = fitted.measure_shift(smiles, settings)
    other = fitted.measure_shift(["C" * size + "O" for size in range(1, 61)], settings)
    assert same.covariate.mean < other.covariate.mean
    assert other.accuracy.mean > 0.9
    with pytest.warns(FutureWarning, match="'shift' is now called 'measure_shift'"):
        assert fitted.shift(smiles, settings).covariate == same.covariate


def test_a_fitted_model_can_be_pickled(fitted):
    smiles, _ = bbbp()
    assert (pickle.loads(pickle.dumps(fitted)).predict(smiles[:9]) == fitted.predict(smiles[:9])).all()


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (["aspirin"], [0], r"row 0: RDKit cannot read the SMILES \('aspirin'\)"),
        ([None, float("nan")], [0, 1], "none of 2 rows can be read; the first: row 0: no SMILES"),
        ([7, 8.5], [0, 1], "row 0: a int, neither SMILES nor molecule"),
        ("CCO", [1], "this is one SMILES; give a list"),
        ([], [], "there are no rows"),
        (["CCO", "CCN"], [1, 1], "every label is 1: there is nothing to tell apart"),
        (["CCO", "CCN"], [1], r"for each of 2 rows, not the shape \(1,\)"),
        (["CCO", "CCN"], [[[1]], [[0]]], r"not the shape \(2, 1, 1\)"),
        (["CCO", "CCN"], None, "the target y is None"),
        (["CCO", "CCN"], [None, float("nan")], "no row has a label"),
        (["CCO", "CCN"], [[0, 2], [1, 0]], "several targets must have two classes, the same for all; these have 3"),
        (["CCO", "CCN"], [1.5, 0.2], "use GraphRegressor"),
        (np.zeros((2, 2)), [0, 1], r"not a table of shape \(2, 2\)"),
        (["C1CC1O"] * 20, [0, 1] * 10, "holding out by scaffold leaves none of 20 rows for 'train'"),
    ],
)
def test_bad_input_is_a_sentence(rows, labels, words):
    with pytest.raises(ValueError, match=words):
        quick().fit(rows, labels)


def test_nobody_who_holds_out_at_random_is_told_to():
    with pytest.raises(BadInput, match=r"holding out at random leaves none of 20 rows .* too few that differ$"):
        quick(domain="random").fit(["C1CC1O"] * 20, [0, 1] * 10)


def test_bad_arguments_are_sentences():
    smiles, labels = bbbp()
    for arguments, words in (
        ({"method": "aai"}, "Did you mean 'aia'"),
        ({"domain": "scafold"}, "Did you mean 'scaffold'"),
        ({"validation": 1.5}, "between 0 and 1, not 1.5"),
        ({"class_weight": "even"}, "class_weight is 'balanced', None or a weight by class, not 'even'"),
        ({"class_weight": {2: 1}}, "class_weight names 2, and the classes are 0, 1"),
        ({"class_weight": {1: 0}}, "finite numbers above 0"),
        ({"domain": "environment"}, "needs environments"),
        ({"device": "cuda:99"}, "CUDA|device"),
    ):
        with pytest.raises(OutlandError, match=words):
            GraphClassifier(**{"method": "erm", "epochs": 1, **arguments}).fit(smiles, labels)


@pytest.mark.parametrize("estimator", [GraphClassifier, GraphRegressor])
@pytest.mark.parametrize(
    "name", ["predict", "predict_proba", "transform", "distance", "explain", "measure_shift", "save"]
)
def test_what_is_not_fitted_says_so(estimator, name):
    if hasattr(estimator, name):
        with pytest.raises(NotFittedError):
            getattr(estimator(), name)(["CCO"])


def test_rows_that_cannot_be_read_have_no_prediction(fitted):
    rows = ["CCO", "aspirin", *bbbp()[0][:3], None]
    with pytest.warns(UnusedRowsWarning, match=r"2 of 6 rows cannot be read.*; the first: row 1: RDKit.*'aspirin'"):
        probabilities = fitted.predict_proba(rows)
    unreadable = [1, 5]
    assert np.isnan(probabilities[unreadable]).all()
    readable = [0, 2, 3, 4]
    assert (probabilities[readable] == fitted.predict_proba([rows[row] for row in readable])).all()
    with pytest.warns(UnusedRowsWarning):
        called, distance, embedded = fitted.predict(rows), fitted.distance(rows), fitted.transform(rows)
    assert np.flatnonzero(np.isnan(called)).tolist() == np.flatnonzero(np.isnan(distance)).tolist() == unreadable
    assert set(called[readable]) <= {0.0, 1.0}
    assert np.isnan(embedded[unreadable]).all()
    with pytest.warns(UnusedRowsWarning):
        explanations = fitted.explain(rows)
    assert [row for row, explanation in enumerate(explanations) if explanation is None] == unreadable
    assert len(explanations[0].node_mask) == 3
    with pytest.warns(UnusedRowsWarning):
        assert scaffold_groups(rows[:3]).tolist() == [0, -1, 1]
    with pytest.warns(UnusedRowsWarning):
        score = fitted.score(rows, [0, 1, 1, 1, 1, 1])
    assert score == np.mean(called[readable] == [0, 1, 1, 1])


def test_rows_that_cannot_be_used_are_left_out_of_a_fit():
    smiles, labels = bbbp()
    clean = quick().fit(smiles[:80], labels[:80])
    dirty = [*smiles[:40], "aspirin", *smiles[40:80], "CCO", "CCN"]
    known = [*labels[:40], 1, *labels[40:80], None, 1]
    weight = [1] * 82 + [0]
    with pytest.warns(UnusedRowsWarning) as told:
        model = quick().fit(dirty, known, weight)
    assert [str(each.message).split(";")[1] for each in told] == [
        " the first: row 81",
        " the first: row 40: RDKit cannot read the SMILES ('aspirin')",
    ]
    assert model.model_.training.graphs == clean.model_.training.graphs
    assert model.classes_.tolist() == [0, 1]


def test_the_global_generator_is_left_alone():
    smiles, labels = bbbp()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    model = quick("aia").fit(smiles[:80], labels[:80])
    model.predict(smiles[:9])
    model.explain(smiles[:3])
    assert torch.equal(torch.get_rng_state(), before)


def test_embeddings_are_what_the_last_layer_reads(fitted):
    smiles, _ = bbbp()
    embedded = fitted.transform(smiles[:9])
    method = fitted.model_.method
    logits = method.to_logits(torch.from_numpy(embedded)).detach().numpy()[:, 0] + fitted.model_.network.offset[0]
    calibration = fitted.model_.calibration
    expected = 1 / (1 + np.exp(-(logits / calibration.temperature[0] + calibration.offset[0])))
    assert np.allclose(fitted.predict_proba(smiles[:9])[:, 1], expected, atol=1e-6)
    assert fitted.get_feature_names_out()[:2].tolist() == ["graphclassifier0", "graphclassifier1"]
    pipeline = make_pipeline(quick(), LogisticRegression(max_iter=500)).fit(smiles, bbbp()[1])
    assert pipeline.predict(smiles[:4]).shape == (4,)


def test_what_scikit_learn_asks_of_an_estimator(fitted):
    assert fitted.n_iter_ == 6
    for estimator in (GraphClassifier(), GraphRegressor()):
        tags = get_tags(estimator)
        given = tags.input_tags
        assert (given.one_d_array, given.two_d_array, given.string, given.allow_nan) == (True, False, True, True)
        assert tags.target_tags.required
        assert tags.target_tags.multi_output
        assert tags.transformer_tags is not None
    assert get_tags(GraphClassifier()).classifier_tags.multi_label
    assert get_tags(GraphRegressor()).estimator_type == "regressor"


def test_a_fitted_estimator_shows_what_it_learned(fitted):
    text = fitted._repr_html_()
    assert "268 molecules" in text
    assert "number " in text
    assert "GraphClassifier" in text
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/html"].count("<table") == text.count("<table")
    assert "trained on" not in GraphClassifier()._repr_html_()
    assert "&lt;b&gt;" in fitted_html(replace(fitted.model_, classes=("<b>", "no")))


@pytest.mark.parametrize(("weight", "words"), [([1], "shape"), ([-1, 1], "0 or more"), ([0, 0], "not all 0")])
def test_weights_that_are_none_are_sentences(weight, words):
    with pytest.raises(BadInput, match=words):
        quick().fit(["CCO", "CCN"], [0, 1], weight)
