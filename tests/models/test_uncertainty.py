"""Expected errors, flags, sets and intervals of a model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from outland.chem.elements import SYMBOLS
from outland.errors import OutlandError
from outland.estimators.inputs import read_inputs
from outland.graphs import Task
from outland.models import load_model, save_model
from outland.models.checks import check_model
from outland.models.model import Predictions
from outland.models.predicted_rows import Coverage, new_columns, predict_rows
from outland.models.similarity import out_of_group_similarity
from outland.models.uncertainty import (
    expected_errors,
    flags,
    learn_uncertainty,
    prediction_intervals,
    prediction_sets,
    shift_ratio,
)
from outland.storage.snapshots import Snapshot, read_snapshot, write_snapshot
from tests.models.cases import forest_model, vectors

BINARY = Task("binary", 1, "rocauc")
CARBON, TIN = SYMBOLS.index("C"), SYMBOLS.index("Sn")


def learned(task, rows=400):
    """A forest on half of the rows, and what it learns of its errors on the other half; labels in the task's units."""
    graphs = vectors(rows)
    score = graphs.extra["descriptors"][:, 0].nan_to_num()
    noise = torch.randn(rows, generator=torch.Generator().manual_seed(9))
    number = (score + 0.3 * noise)[:, None]
    graphs = replace(graphs, y=number if task.kind == "regression" else (number > 0).float())
    half = torch.arange(rows // 2)
    model = forest_model(task, graphs.select(half))
    held_out = graphs.select(half + rows // 2)
    similarity = out_of_group_similarity(held_out.extra["fingerprint"], torch.arange(len(half)) % 5)
    predictions = replace(model.predict(held_out), similarity=similarity)
    fingerprints = graphs.extra["fingerprint"][half]
    return learn_uncertainty(model, predictions, held_out.y, fingerprints=fingerprints), graphs


def test_a_classifier_learns_its_errors_and_its_sets(tmp_path):
    model, graphs = learned(BINARY)
    assert model.expected_error.names == ("dissimilarity", "uncertainty")
    assert model.conformal.features.shape == (200, 12)
    model = load_model(save_model(model, tmp_path / "model"))
    predictions = model.predict(graphs)
    assert ((expected_errors(model, predictions) >= 0) & (expected_errors(model, predictions) <= 1)).all()
    assert set(flags(model, predictions)) <= {"near", "edge", "far"}
    inside = prediction_sets(model, predictions, 0.9)[200:, 0]
    held = inside[np.arange(200), graphs.y[200:, 0].long().numpy()]
    assert held.mean() == pytest.approx(0.9, abs=0.02)
    row = predict_rows(model, graphs, Coverage(0.9))[0]
    assert row["outland_set"] in ("no", "yes", "no|yes", "{}")
    assert [*row] == [name for name in new_columns(model, Coverage(0.9)) if name != "outland_problem"]
    assert "outland_set" not in predict_rows(model, graphs)[0]
    assert "Flags go by the expected error" in (tmp_path / "model" / "README.md").read_text()


def with_tin(graphs, rows):
    """The graphs with carbon as the only atom of each, and of some rows tin."""
    x = torch.full_like(graphs.x, 0)
    x[:, 0] = CARBON
    x[rows, 0] = TIN
    return replace(graphs, x=x)


@pytest.mark.parametrize("task", [BINARY, Task("regression", 1, "rmse", (10.0,), (2.0,))], ids=["binary", "regression"])
def test_a_molecule_with_an_element_of_no_training_row_is_far_and_names_it(tmp_path, task):
    model, graphs = learned(task)
    model = replace(model, training_elements=torch.tensor([CARBON]))
    model = load_model(save_model(model, tmp_path / "model"))
    assert model.training_elements.tolist() == [CARBON]
    assert "- elements: C; molecules with any other are flagged far" in (tmp_path / "model" / "README.md").read_text()
    near = [row for row, flag in enumerate(flags(model, model.predict(with_tin(graphs, [])))) if flag == "near"][:20]
    before, after = predict_rows(model, with_tin(graphs, [])), predict_rows(model, with_tin(graphs, near))
    least = model.expected_error.by_flag[2].error
    for row, (old, new) in enumerate(zip(before, after, strict=True)):
        if row not in near:
            assert old == new
            assert new["outland_unseen_elements"] == ""
            continue
        assert (new["outland_flag"], new["outland_unseen_elements"]) == ("far", "Sn")
        assert float(new["outland_expected_error"]) == pytest.approx(max(least, model.expected_error.far), rel=1e-3)
        assert float(old["outland_expected_error"]) < float(new["outland_expected_error"]) / 1.5
        if task.kind == "regression":
            width = [float(cells["outland_high"]) - float(cells["outland_low"]) for cells in (old, new)]
            assert width[1] > 1.5 * width[0]


def test_by_the_distance_too_a_molecule_with_an_unseen_element_is_far(fitted):
    molecules = ["CCO", "CCCC[Sn](CCCC)(CCCC)O"]
    model = fitted.model_
    graphs = read_inputs(molecules).graphs
    assert flags(model, model.predict(graphs))[1] == "far"
    assert [row["outland_unseen_elements"] for row in predict_rows(model, graphs)] == ["", "Sn"]


def test_models_from_before_elements_were_kept_predict_as_before(tmp_path):
    model, graphs = learned(BINARY)
    model = replace(model, training_elements=torch.tensor([CARBON]))
    folder = save_model(model, tmp_path / "model")
    saved = read_snapshot(folder)
    tensors = {name: tensor for name, tensor in saved.tensors.items() if name != "training.elements"}
    write_snapshot(tmp_path / "older", Snapshot(tensors, saved.values))
    older = load_model(tmp_path / "older")
    tin = with_tin(graphs, [0, 1, 2])
    assert older.predict(tin).unseen is None
    known = replace(model, training_elements=torch.tensor([CARBON, TIN])).predict(tin)
    assert flags(older, older.predict(tin)) == flags(model, known)
    assert (expected_errors(older, older.predict(tin)) == expected_errors(model, known)).all()
    assert "outland_unseen_elements" not in new_columns(older)
    assert "outland_unseen_elements" in new_columns(model)


def test_impossible_elements_are_refused(tmp_path):
    model, _ = learned(BINARY)
    model = replace(model, training_elements=torch.tensor([300]))
    with pytest.raises(ValueError, match="its training elements are no elements"):
        check_model(model)


def test_a_regression_always_has_an_interval(tmp_path):
    task = Task("regression", 1, "rmse", (10.0,), (2.0,))
    model, graphs = learned(task)
    assert model.expected_error.names == ("dissimilarity", "extremity")
    model = load_model(save_model(model, tmp_path / "model"))
    predictions = model.predict(graphs)
    low, high = prediction_intervals(model, predictions)
    truth = task.in_label_units(graphs.y.double())[200:].numpy()
    assert ((low[200:] <= truth) & (truth <= high[200:])).mean() == pytest.approx(0.9, abs=0.02)
    row = predict_rows(model, graphs)[0]
    assert float(row["outland_low"]) < float(row["outland_prediction"]) < float(row["outland_high"])
    assert float(row["outland_low"]) == pytest.approx(low[0, 0], rel=1e-4)
    narrow = predict_rows(model, graphs, Coverage(0.5))[0]
    assert float(narrow["outland_high"]) < float(row["outland_high"])


def test_numbers_that_are_not_finite_are_a_problem_and_never_near(fitted):
    model, graphs = learned(BINARY)
    outputs = model.predict(graphs).outputs.clone()
    outputs[3] = torch.nan
    assert flags(model, replace(model.predict(graphs), outputs=outputs))[3] == ""
    broken = replace(model.members[0], base=model.members[0].base + torch.inf, kind="boosting")
    rows = predict_rows(replace(model, members=(broken,)), graphs)
    assert {*map(str, rows)} == {"{'outland_problem': \"the model's numbers for it are not finite\"}"}
    distances = torch.tensor([0.1, float("nan")])
    assert flags(fitted.model_, Predictions(torch.zeros(2, 1), None, distances)) == ["near", ""]


def test_scores_are_weighted_where_a_table_is_far_off():
    model, graphs = learned(BINARY)
    assert shift_ratio(model, graphs.extra["descriptors"]) is None
    assert shift_ratio(model, graphs.extra["descriptors"][:49] + 3) is None
    ratio = shift_ratio(model, graphs.extra["descriptors"][:100] + 2)
    assert ratio.auc > 0.9
    predictions = model.predict(graphs)
    plain, weighted = (prediction_sets(model, predictions, 0.9, each) for each in (None, ratio))
    assert (plain != weighted).any()


def test_coverage_without_scores_is_a_sentence():
    model, graphs = learned(BINARY)
    with pytest.raises(OutlandError, match=r"between 0 and 1, as 0\.9, not 90"):
        Coverage(90).check(model)
    with pytest.raises(OutlandError, match="keeps no scores"):
        Coverage(0.9).check(replace(model, conformal=None))
    with pytest.raises(OutlandError, match="keeps no scores"):
        prediction_sets(replace(model, conformal=None), model.predict(graphs))
    Coverage().check(replace(model, conformal=None))


def test_a_model_that_reads_what_it_does_not_have_is_refused(tmp_path):
    model, _ = learned(BINARY)
    for change, words in (
        ({"neighbours": None}, "its expected error reads what the model does not have"),
        ({"expected_error": replace(model.expected_error, weights=(1.0,))}, "its expected error has other signals"),
        ({"expected_error": replace(model.expected_error, knots=-model.expected_error.knots)}, "do not rise"),
        ({"conformal": replace(model.conformal, scores=model.conformal.scores.repeat(1, 2))}, "of other targets"),
        ({"conformal": replace(model.conformal, features=torch.zeros(3, 2))}, "features of other rows"),
    ):
        folder = save_model(replace(model, **change), tmp_path / words.split()[-1])
        with pytest.raises(OutlandError, match=words):
            load_model(folder)
