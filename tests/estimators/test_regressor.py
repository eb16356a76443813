"""The regressor."""

import csv

import numpy as np
import pytest
from sklearn.metrics import r2_score

from outland.estimators import BadInput, GraphRegressor, UnusedRowsWarning
from outland.training.targets import NoTarget
from tests.conftest import SAMPLES
from tests.models.cases import SMALL


def esol() -> tuple[list[str], np.ndarray]:
    with (SAMPLES / "esol.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    name = "measured log solubility in mols per litre"
    return [row["smiles"] for row in rows], np.array([float(row[name]) for row in rows])


def test_numbers_are_predicted_in_their_own_scale():
    smiles, y = esol()
    model = GraphRegressor("erm", epochs=15, backbone=SMALL, method_params={"lr": 0.01}).fit(smiles, 100 * y)
    assert np.corrcoef(model.predict(smiles), y)[0, 1] > 0.5
    assert abs(model.predict(smiles).mean() - 100 * y.mean()) < 120
    assert model.score(smiles, 100 * y) > 0.1  # R²
    with pytest.raises(BadInput, match="not numbers"):
        GraphRegressor().fit(smiles, ["a"] * len(smiles))


def test_the_record_is_in_the_labels_own_units():
    smiles, y = esol()
    rows = slice(0, 60)
    model, large = (
        GraphRegressor("erm", epochs=2, backbone=SMALL, domain="random").fit(smiles[rows], scale * y[rows])
        for scale in (1, 100)
    )
    first, second = (estimator.record_.selection["ood_val"]["val"] for estimator in (model, large))
    assert second == pytest.approx(100 * first, rel=1e-3)
    validation = large.model_.training.graphs["val"]
    assert validation == 6
    assert large.model_.task.std[0] == pytest.approx(100 * model.model_.task.std[0])
    assert (large.model_.classes, large.model_.training.class_counts) == ((), [])


def test_several_numbers_with_gaps():
    smiles, y = esol()
    size = np.array([float(len(text)) for text in smiles])
    table = np.stack([y, size], 1)
    table[::5, 0] = np.nan
    model = GraphRegressor("erm", epochs=15, backbone=SMALL, method_params={"lr": 0.01}).fit(smiles, table)
    predicted = model.predict(smiles)
    assert predicted.shape == table.shape
    assert np.corrcoef(predicted[:, 1], size)[0, 1] > 0.5
    known = ~np.isnan(table[:, 0])
    scores = [r2_score(table[known, 0], predicted[known, 0]), r2_score(size, predicted[:, 1])]
    assert model.score(smiles, table) == pytest.approx(np.mean(scores), abs=1e-6)
    with pytest.warns(UnusedRowsWarning, match="1 of 11 rows cannot be read"):
        more = model.predict([*smiles[:10], "aspirin"])
    assert np.allclose(more[:10], predicted[:10])
    assert np.isnan(more[10]).all()


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, float("inf"), 2.0], "a label among the rows is not finite: inf"),
        ([[1.0, 2.0]] * 2, r"for each of 3 rows, not the shape \(2, 2\)"),
    ],
)
def test_bad_labels_are_sentences(y, words):
    with pytest.raises(BadInput, match=words):
        GraphRegressor("erm", epochs=1).fit(["CCO", "CCN", "CCC"], y)


def test_equal_numbers_teach_nothing():
    with pytest.raises(NoTarget, match="the numbers to predict are all the same"):
        GraphRegressor("erm", epochs=1, domain="random").fit(["C" * size for size in range(1, 21)], [2.5] * 20)
