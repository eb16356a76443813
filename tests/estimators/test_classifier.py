"""The scikit-learn face."""

import csv
import pickle

import numpy as np
import pytest
import torch
from outland.estimators.calibration import Calibration, calibrate, prior_offset
from outland.estimators.distance import Familiar
from outland.estimators.model import run_batches
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from torch_geometric.data import Data
from torch_geometric.explain import Explanation, groundtruth_metrics

from outland.chem.featurizer import parse
from outland.errors import OutlandError
from outland.estimators import BadInput, GraphClassifier, GraphRegressor, scaffold_groups
from outland.estimators.fitting import Plan, _drawn
from outland.estimators.inputs import read_inputs
from outland.estimators.splitting import split_validation, training_environments
from outland.graphs import Features, Schema, Task
from outland.methods import METHODS, build_method
from outland.nn import BackboneSettings
from outland.shift import ShiftSettings
from tests.conftest import SAMPLES
from tests.estimators.cases import SMALL, bbbp

BINARY = Task("binary", 1, "rocauc")


def quick(method: str = "erm", **rest) -> GraphClassifier:
    return GraphClassifier(method, epochs=1, backbone=SMALL, **rest)


def test_parameters_survive_clone_and_name_single_settings():
    model = GraphClassifier("aia", shift="size", settings={"gamma": 0.3})
    copy = clone(model).set_params(method__lambda_s=0.7, backbone__width=32, shift="random")
    assert copy.settings == {"gamma": 0.3, "lambda_s": 0.7}
    assert model.settings == {"gamma": 0.3}
    assert copy.get_params()["method__lambda_s"] == 0.7
    assert (copy.get_params()["shift"], model.get_params()["shift"]) == ("random", "size")
    with pytest.raises(ValueError, match=r"unknown setting of method 'gama'. Did you mean 'gamma'"):
        model.set_params(method__gama=1)
    with pytest.raises(ValueError, match=r"unknown parameter of GraphClassifier 'epoch'. Did you mean 'epochs'"):
        model.set_params(epoch=1)


def test_setting_what_is_set_changes_nothing():
    for model in (GraphClassifier("aia"), GraphClassifier("erm", settings={"lr": 0.1}, train={"batch_size": 9})):
        before = model.get_params(deep=False)
        assert model.set_params(**model.get_params()).get_params(deep=False) == before


def test_the_search_space_is_the_methods_own():
    space = GraphClassifier("aia").search_space()
    assert space["method__lr"] == [1e-2, 5e-3, 1e-3]
    assert len(space["method__gamma"]) == 9
    assert list(GraphClassifier("erm").search_space()) == ["method__lr"]


def test_cross_validation_and_grid_search_on_300_molecules():
    smiles, labels = bbbp()
    scores = cross_val_score(quick(), smiles, labels, cv=3, scoring="roc_auc", error_score="raise")
    assert scores.shape == (3,)
    assert ((scores > 0) & (scores < 1)).all()
    space = {name: values[:2] for name, values in GraphClassifier("aia").search_space().items() if "lr" in name}
    grid = {"model__method__lr": space["method__lr"]}
    pipeline = Pipeline(
        [("strip", FunctionTransformer(lambda rows: [row.strip() for row in rows])), ("model", quick("aia"))]
    )
    search = GridSearchCV(pipeline, grid, cv=2, scoring="roc_auc", error_score="raise").fit(smiles, labels)
    assert search.best_params_["model__method__lr"] in (1e-2, 5e-3)
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


def test_a_fit_learns_and_its_probabilities_are_probabilities(fitted):
    smiles, labels = bbbp()
    found = fitted.predict_proba(smiles)
    assert found.shape == (len(smiles), 2)
    assert np.allclose(found.sum(1), 1)
    # One seed has 0.55 to 0.82, with a mean of 0.72 and a deviation of 0.06 over sixteen.
    others = [clone(fitted).set_params(random_state=seed).fit(smiles, labels) for seed in (1, 2, 3)]
    each = [roc_auc_score(labels, model.predict_proba(smiles)[:, 1]) for model in (fitted, *others)]
    assert np.mean(each) > 0.65
    said = fitted.predict(smiles)
    assert ((found[:, 1] > fitted.model_.threshold) == (said == 1)).all()
    assert fitted.score(smiles, labels) == (said == labels).mean()


def test_molecules_strings_and_columns_say_the_same(fitted):
    smiles, _ = bbbp()
    expected = fitted.predict_proba(smiles[:9])
    assert (fitted.predict_proba([parse(one) for one in smiles[:9]]) == expected).all()
    assert (fitted.predict_proba(np.array(smiles[:9], dtype=object)[:, None]) == expected).all()


def test_equal_seeds_fit_equal_models():
    smiles, labels = bbbp()
    one, two, other = (quick(random_state=seed).fit(smiles[:80], labels[:80]) for seed in (3, 3, 4))
    assert (one.predict_proba(smiles) == two.predict_proba(smiles)).all()
    assert (one.predict_proba(smiles) != other.predict_proba(smiles)).any()


def test_classes_may_be_words_and_more_than_two():
    smiles, labels = bbbp()
    names = [f"kind {(label + len(one)) % 3}" for label, one in zip(labels, smiles, strict=True)]
    model = quick(shift="random").fit(smiles, names)
    assert list(model.classes_) == ["kind 0", "kind 1", "kind 2"]
    assert model.predict_proba(smiles[:5]).shape == (5, 3)
    assert set(model.predict(smiles)) <= set(names)


def test_labels_in_columns_of_objects_stay_what_they_are():
    def classes(labels):
        return GraphClassifier()._labels(labels, len(labels))[2]

    for labels in ([0, 1, 1], ["no", "yes", "yes"], [False, True, True], [0.0, 1.0, 1.0]):
        found = classes(np.array(labels, dtype=object))
        assert found == classes(labels) == tuple(labels[:2])
        assert {type(one) for one in found} == {type(labels[0])}
    smiles, labels = bbbp()
    model = quick(shift="random").fit(smiles, np.array(labels, dtype=object))
    assert model.score(smiles, labels) == (model.predict(smiles) == labels).mean()
    for missing in (None, float("nan"), np.nan, np.float32("nan")):
        for labels in (["a", "b", missing], np.array([0, 1, missing], dtype=object)):
            with pytest.raises(BadInput, match="row 2 has no label"):
                classes(labels)
    with pytest.raises(BadInput, match="all text, all numbers or all true and false, not int, str"):
        classes([0, "1", 1])


def test_graphs_of_ones_own():
    def ring(size: int) -> Data:
        ends = torch.arange(size)
        way = torch.stack([ends, (ends + 1) % size])
        return Data(x=torch.rand(size, 3), edge_index=torch.cat([way, way.flip(0)], 1))

    torch.manual_seed(0)
    graphs = [ring(3 + place % 29) for place in range(60)]
    model = quick("aia").fit(graphs, [place % 2 for place in range(60)])
    assert model.model_.about["shift"] == "size"
    assert model.predict_proba(graphs[:4]).shape == (4, 2)
    with pytest.raises(BadInput, match="trained on graphs, and these are molecules"):
        model.predict(["CCO"])
    with pytest.raises(BadInput, match="other node features"):
        model.predict([Data(x=torch.rand(3, 5), edge_index=graphs[0].edge_index)])
    with pytest.raises(BadInput, match="only molecules have a scaffold"):
        quick(shift="scaffold").fit(graphs, [0, 1] * 30)


def test_numbers_are_predicted_in_their_own_scale():
    with (SAMPLES / "esol.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    name = "measured log solubility in mols per litre"
    smiles, y = [row["smiles"] for row in rows], np.array([float(row[name]) for row in rows])
    model = GraphRegressor("erm", epochs=15, backbone=SMALL, settings={"lr": 0.01}).fit(smiles, 100 * y)
    assert np.corrcoef(model.predict(smiles), y)[0, 1] > 0.5
    assert abs(model.predict(smiles).mean() - 100 * y.mean()) < 120
    with pytest.raises(BadInput, match="not numbers"):
        GraphRegressor().fit(smiles, ["a"] * len(smiles))


def test_validation_holds_out_whole_scaffolds():
    inputs = read_inputs(bbbp()[0], scaffold=True)
    parts = split_validation(inputs, "scaffold", 0.2, None, 0)
    scaffold = inputs.groups["scaffold"]
    assert not set(scaffold[parts["train"]].tolist()) & set(scaffold[parts["val"]].tolist())
    assert 0.15 < len(parts["val"]) / len(scaffold) < 0.25
    assert sorted(torch.cat(list(parts.values())).tolist()) == list(range(len(scaffold)))
    by_size = split_validation(inputs, "size", 0.2, None, 0)
    sizes = inputs.graphs.node_counts
    assert int(sizes[by_size["val"]].max()) <= int(sizes[by_size["train"]].min())


def test_environments_are_taken_made_or_held_out():
    smiles, labels = bbbp()
    inputs = read_inputs(smiles, scaffold=True)
    parts = split_validation(inputs, "scaffold", 0.2, None, 0)
    made, number = training_environments(inputs, "scaffold", parts["train"], None)
    assert number == 10
    assert sorted(made[parts["train"]].unique().tolist()) == list(range(10))
    names = [f"lab {place % 4}" for place in range(len(smiles))]
    held = split_validation(inputs, "environment", 0.24, names, 0)
    environment, number = training_environments(inputs, "environment", held["train"], names)
    assert number == 3
    assert set(environment[held["val"]].tolist()) == {3}
    assert quick("vrex").fit(smiles, labels).predict(smiles[:2]).shape == (2,)
    assert quick("groupdro", shift="environment", validation=0.24).fit(smiles, labels, environments=names)
    with pytest.raises(BadInput, match="2 environments for 298 rows"):
        quick().fit(smiles, labels, environments=["a", "b"])


def test_rare_classes_are_drawn_more_often_and_probabilities_corrected():
    y = torch.zeros(110, 1)
    y[:10] = 1
    drawn, counts, times = _drawn(y, torch.arange(110), BINARY, True, 0)
    assert (counts, times) == ([100, 10], [100, 100])
    assert torch.bincount(drawn)[:10].tolist() == [10] * 10
    (offset,) = prior_offset(counts, times, BINARY)
    assert offset == pytest.approx(np.log(0.1))
    y[1:10] = 0
    assert _drawn(y, torch.arange(110), BINARY, True, 0)[2] == [109, 10]  # at most ten times
    with pytest.raises(BadInput, match="class number 1"):
        _drawn(y, torch.arange(10, 110), BINARY, True, 0)


def test_the_temperature_undoes_overconfidence():
    random = torch.Generator().manual_seed(0)
    truth = 2 * torch.randn(20_000, 1, generator=random)
    y = (torch.rand(20_000, 1, generator=random) < truth.sigmoid()).float()
    assert calibrate(3 * truth, y, (0.0,), BINARY).temperature == pytest.approx(3, rel=0.05)
    assert calibrate(3 * truth - 1.5, y, (0.5,), BINARY).temperature == pytest.approx(3, rel=0.05)
    assert calibrate(truth, torch.ones_like(y), (0.0,), BINARY) == Calibration(1.0, (0.0,))


def test_distance_is_one_for_one_training_row_in_twenty():
    random = torch.Generator().manual_seed(0)
    known = torch.randn(3000, 8, generator=random)
    familiar = Familiar.of(known[:2000], 0)
    fresh = familiar.distances(known[2000:])
    assert 0.03 < (fresh > 1).float().mean() < 0.07
    assert familiar.flags(torch.tensor([0.5, 1.001, 50.0])) == ["near", "edge", "far"]
    between = torch.cat([known[:1000] + 20, known[1000:2000] - 20])
    assert (
        familiar.flags(Familiar.of(between, 0).distances(torch.zeros(1, 8)))[0] == "far"
    )  # the gap is no known ground


def test_a_dead_unit_does_not_make_every_row_far():
    random = torch.Generator().manual_seed(0)
    known = torch.randn(2000, 8, generator=random)
    known[:, 3:] = 0  # more than half of them are dead
    fresh = torch.randn(1000, 8, generator=random)
    fresh[:, 3:] = 0.01
    familiar = Familiar.of(known, 0)
    assert familiar.spread[:3].min() > 0.9
    assert familiar.spread[3:].tolist() == pytest.approx([0.1 * float(familiar.spread[:3].median())] * 5)
    assert familiar.flags(familiar.distances(fresh)).count("far") < 30
    assert familiar.flags(familiar.distances(fresh + 5)).count("far") == 1000
    assert Familiar.of(torch.ones(50, 4), 0).spread.tolist() == [1.0] * 4


def test_every_method_has_embeddings_at_its_head():
    graphs = read_inputs(["CCO", "c1ccccc1O", "CC(=O)N"]).graphs
    schema = Schema(Features(9, (119, 5, 12, 12, 10, 6, 6, 2, 2)), BINARY, Features(3, (5, 6, 2)), environments=2)
    for name in METHODS:
        plan = Plan.make(name)
        method = build_method(name, schema, BackboneSettings(width=8, layers=3), plan.settings)
        outputs, embeddings = run_batches(method, graphs)
        assert outputs.shape == (3, 1), name
        assert embeddings.shape[0] == 3, name
        assert len({tuple(row) for row in embeddings.tolist()}) == 3, name


def test_explanations_are_pygs(fitted):
    smiles, labels = bbbp()
    found = fitted.explain(smiles[:5])
    assert all(isinstance(one, Explanation) and one.validate() for one in found)
    assert [len(one.x) for one in found] == [parse(one).GetNumAtoms() for one in smiles[:5]]
    assert found[0].kind == "stable mask"
    first = found[0]
    assert ((first.node_mask >= 0) & (first.node_mask <= 1)).all()
    pairs = {
        (u, v): weight for (u, v), weight in zip(first.edge_index.T.tolist(), first.edge_mask.tolist(), strict=True)
    }
    assert all(pairs[v, u] == weight for (u, v), weight in pairs.items())
    truth = (first.edge_mask > first.edge_mask.median()).long()
    assert groundtruth_metrics(first.edge_mask, truth, metrics="auroc") == 1.0
    plain = quick().fit(smiles, labels).explain(smiles[:2])
    assert plain[0].kind == "gradient saliency"
    assert float(plain[0].node_mask.max()) == 1.0
    assert float(plain[0].node_mask.min()) < 0.9


def test_saliency_of_a_node_the_output_does_not_hear_is_zero():
    model = quick().fit(*bbbp())
    for part in model.model_.method.parameters():
        part.data.zero_()
    (one,) = model.explain(["CCO"])
    assert one.node_mask.tolist() == [[0.0], [0.0], [0.0]]


def test_a_fitted_model_measures_shifts(fitted):
    smiles, _ = bbbp()
    settings = ShiftSettings(trials=1, most=60, folds=3, steps=40)
    same = fitted.shift(smiles, settings)
    other = fitted.shift(["C" * size + "O" for size in range(1, 61)], settings)
    assert same.covariate.mean < other.covariate.mean
    assert other.accuracy.mean > 0.9


def test_a_fitted_model_can_be_pickled(fitted):
    smiles, _ = bbbp()
    assert (pickle.loads(pickle.dumps(fitted)).predict(smiles[:9]) == fitted.predict(smiles[:9])).all()


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (["CCO", "aspirin", "CCN"], [0, 1, 0], r"row 1: RDKit cannot read the SMILES \('aspirin'\)"),
        (["CCO", None, float("nan")], [0, 1, 0], "2 of 3 rows cannot be read; the first: row 1: no SMILES"),
        (["CCO", 7], [0, 1], "row 1: a int, neither SMILES nor molecule"),
        ("CCO", [1], "this is one SMILES; give a list"),
        ([], [], "there are no rows"),
        (["CCO", "CCN"], [1, 1], "every label is 1: there is nothing to tell apart"),
        (["CCO", "CCN"], [1], "one label for each of 2 rows"),
        (["CCO", "CCN"], [1.0, float("nan")], "row 1 has no label"),
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
        quick(shift="random").fit(["C1CC1O"] * 20, [0, 1] * 10)


def test_bad_arguments_are_sentences():
    smiles, labels = bbbp()
    for arguments, words in (
        ({"method": "aai"}, "Did you mean 'aia'"),
        ({"shift": "scafold"}, "Did you mean 'scaffold'"),
        ({"validation": 1.5}, "between 0 and 1, not 1.5"),
        ({"class_weight": {0: 1}}, "class_weight is 'balanced' or None"),
        ({"shift": "environment"}, "needs environments"),
        ({"device": "cuda:99"}, "CUDA|device"),
    ):
        with pytest.raises(OutlandError, match=words):
            GraphClassifier(**{"method": "erm", "epochs": 1, **arguments}).fit(smiles, labels)
    with pytest.raises(NotFittedError):
        GraphClassifier().predict(smiles)
