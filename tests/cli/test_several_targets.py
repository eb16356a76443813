"""Several targets of one table, from training to the page."""

import csv
import json
import math
import re
import shutil

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from outland.estimators import GraphClassifier
from outland.models import load_model
from tests.conftest import SAMPLES

SMALLER = ["--method", "erm", "--domain", "random", "--set", "train.epochs=2", "--set", "backbone.width=8"]
SMALLER += ["--folds", "2"]
TOX = ["NR-AhR", "SR-MMP", "SR-ARE"]
ESOL = ["measured log solubility in mols per litre", "Molecular Weight"]


def named(targets):
    return [word for target in targets for word in ("--target", target)]


def rows_of(path):
    with path.open() as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def tox(outland, tmp_path, quick_shift):
    """A model of three targets of Tox21, whose labels are not all known."""
    shutil.copy(SAMPLES / "tox21.csv", tmp_path / "tox21.csv")
    done = outland("fit", "tox21.csv", *named(TOX), *SMALLER, "--out", "m")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_classes_of_several_targets(outland, tox, tmp_path):
    model = load_model(tmp_path / "m")
    assert (model.targets, model.classes, model.task.outputs) == (TOX, ("0", "1"), 3)
    assert len(model.calibration.temperature) == 3
    assert len(set(model.calibration.temperature)) == 3
    assert model.network.offset == (0.0, 0.0, 0.0)  # rare classes are drawn as they are
    assert model.training.class_counts == []
    assert [score.target for score in model.assessment.of("test")] == TOX
    values = [score.score.value for score in model.assessment.of("test") if score.score.value is not None]
    assert np.mean(values) == pytest.approx(model.assessment.comparison.of("erm").score.value, abs=1e-6)
    for target in TOX:
        assert f"{target}: " in tox
    card = (tmp_path / "m" / "README.md").read_text()
    assert "answers with one of the classes 0, 1 for each of NR-AhR, SR-MMP, SR-ARE" in card
    assert f"temperature {', '.join(f'{value:.2f}' for value in model.calibration.temperature)}" in card
    assert card.count("| held out | ") == 3

    done = outland("predict", "m", "tox21.csv", "--no-shift")
    rows = rows_of(tmp_path / "tox21-predicted.csv")
    added = [f"outland_{name}_{target}" for target in TOX for name in ("probability", "class")]
    assert [name for name in rows[0] if name.startswith("outland_")] == [
        *added,
        "outland_distance",
        "outland_similarity",
        "outland_expected_error",
        "outland_flag",
        "outland_unseen_elements",
        "outland_problem",
    ]
    assert "outland_probability_TARGET is of '1'" in done.stdout
    plain = json.loads(outland("evaluate", "m", "tox21.csv", "--json").stdout)
    for score, target in zip(plain["scores"], TOX, strict=True):
        known = [row for row in rows if row[target]]
        labels = np.array([int(row[target]) for row in known])
        probabilities = np.array([float(row[f"outland_probability_{target}"]) for row in known])
        classes = np.array([int(row[f"outland_class_{target}"]) for row in known])
        assert (score["target"], score["rows"]) == (target, len(known))
        assert len(known) < len(rows)
        assert score["score"]["value"] == pytest.approx(roc_auc_score(labels, probabilities), abs=1e-3)
        assert score["rare"] == min(labels.sum(), (1 - labels).sum())
        check = score["calibration"]
        assert check["mean_probability"] == pytest.approx(probabilities.mean(), abs=1e-6)
        assert check["observed_rate"] == pytest.approx(labels.mean())
        assert check["accuracy"] == pytest.approx((classes == labels).mean())
        assert ((probabilities > 0.5) == (classes == 1)).mean() > 0.99  # six digits are written
        called = re.search(rf"called \({target}\): 0 (\d+)", done.stdout).group(1)
        assert int(called) == sum(row[f"outland_class_{target}"] == "0" for row in rows)


def test_one_of_several_targets_is_explained_and_an_estimator_reads_all(outland, tox, tmp_path):
    outland("predict", "m", "tox21.csv", "--no-shift")
    rows = rows_of(tmp_path / "tox21-predicted.csv")
    for words, target in (([], TOX[0]), (["--target", TOX[1]], TOX[1])):
        done = outland("explain", "m", "tox21.csv", "--most", "9", "--force", "--out", "page.html", *words)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "page.html").read_text()
        assert target in text
        for row in rows[:9]:
            assert f">{float(row[f'outland_probability_{target}']):.2f}</td>" in text
        truths = [row[target] == row[f"outland_class_{target}"] for row in rows[:9] if row[target]]
        assert text.count('data-error="wrong"') == truths.count(False)
        assert text.count('data-error="right"') == truths.count(True)
        part = outland("predict", "m", "test", "--no-shift", "--force")
        assert part.returncode == 0, part.stderr
        held_out = rows_of(tmp_path / "test-predicted.csv")
        known = [row for row in held_out if row[f"label_{target}"]]
        assert 0 < len(known) < len(held_out)
        assert outland("explain", "m", "test", "--force", "--out", "page.html", *words).returncode == 0
        text = (tmp_path / "page.html").read_text()
        right = sum(row[f"label_{target}"] == row[f"outland_class_{target}"] for row in known)
        assert text.count('data-error="right"') == right
        assert text.count('data-error="wrong"') == len(known) - right
    with (tmp_path / "new.csv").open("w") as stream:
        stream.writelines(f"{text}\n" for text in ["smiles", *(row["smiles"] for row in rows[:4])])
    done = outland("explain", "m", "new.csv", "--target", TOX[2], "--force", "--out", "page.html")
    assert done.returncode == 0, done.stderr
    assert f"of {TOX[2]}; --target draws {TOX[0]} or {TOX[1]}" in done.stdout
    text = (tmp_path / "page.html").read_text()
    assert all(f">{float(row[f'outland_probability_{TOX[2]}']):.2f}</td>" in text for row in rows[:4])
    assert "Did you mean 'SR-MMP'" in outland("explain", "m", "test", "--target", "SR-MM", "--out", "p.html").stderr
    done = outland("explain", "m", "new.csv", "--target", "SR-HSE", "--force", "--out", "page.html")
    assert done.returncode == 2
    assert "unknown target of the model or column of new.csv 'SR-HSE'." in done.stderr
    assert "Valid: NR-AhR, SR-ARE, SR-MMP, smiles" in done.stderr
    model = GraphClassifier.load(tmp_path / "m")
    smiles = [row["smiles"] for row in rows]
    written = np.array([[float(row[f"outland_probability_{target}"]) for target in TOX] for row in rows])
    assert np.abs(model.predict_proba(smiles) - written).max() < 1.1e-6
    assert model.predict(smiles).tolist() == [[row[f"outland_class_{target}"] for target in TOX] for row in rows]


def test_numbers_of_several_targets(outland, tmp_path, quick_shift):
    shutil.copy(SAMPLES / "esol.csv", tmp_path / "esol.csv")
    done = outland("fit", "esol.csv", *named(ESOL), *SMALLER, "--out", "m")
    assert done.returncode == 0, done.stderr
    model = load_model(tmp_path / "m")
    assert (model.targets, model.classes, model.task.kind) == (ESOL, (), "regression")
    assert model.task.std[1] > 20 * model.task.std[0]  # each is standardized by itself
    outland("predict", "m", "esol.csv", "--no-shift")
    rows = rows_of(tmp_path / "esol-predicted.csv")
    scores = json.loads(outland("evaluate", "m", "esol.csv", "--json").stdout)["scores"]
    for number, (score, target) in enumerate(zip(scores, ESOL, strict=True)):
        labels = np.array([float(row[target]) for row in rows])
        predictions = np.array([float(row[f"outland_prediction_{target}"]) for row in rows])
        assert score["score"]["value"] == pytest.approx(math.sqrt(np.square(predictions - labels).mean()), rel=1e-4)
        mean = model.task.mean[number]
        assert score["mean_error"] == pytest.approx(math.sqrt(np.square(labels - mean).mean()), rel=1e-5)
        assert abs(predictions.mean() - labels.mean()) < 2 * labels.std()
    held_out = model.assessment.of("test")
    mean = np.mean([score.score.value for score in held_out])
    assert mean == pytest.approx(model.assessment.comparison.of("erm").score.value, rel=1e-5)
    text = outland("evaluate", "m", "esol.csv").stdout
    assert all(f"{score['mean_error']:.3f}" in text for score in scores)
    assert (
        "off by"
        in outland("explain", "m", "esol.csv", "--target", ESOL[1], "--most", "5").stdout
        + (tmp_path / "esol-explained.html").read_text()
    )


def test_targets_of_different_kinds_are_refused(outland, tmp_path):
    shutil.copy(SAMPLES / "bbbp.csv", tmp_path / "bbbp.csv")
    done = outland("fit", "bbbp.csv", *named(["p_np", "name"]), *SMALLER)
    assert done.returncode == 2
    assert "several targets must all be 0/1 or all be numbers, and 'name' is not" in done.stderr
