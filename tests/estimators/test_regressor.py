"""The regressor."""

import csv

import numpy as np
import pytest

from outland.estimators import BadInput, GraphRegressor
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


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([1.0, float("nan"), 2.0], "row 1 has no number"),
        ([[1.0, 2.0]] * 3, r"one number for each of 3 rows, not the shape \(3, 2\)"),
    ],
)
def test_bad_labels_are_sentences(y, words):
    with pytest.raises(BadInput, match=words):
        GraphRegressor("erm", epochs=1).fit(["CCO", "CCN", "CCC"], y)


def test_equal_numbers_teach_nothing():
    with pytest.raises(NoTarget, match="the numbers to predict are all the same"):
        GraphRegressor("erm", epochs=1, domain="random").fit(["C" * size for size in range(1, 21)], [2.5] * 20)
