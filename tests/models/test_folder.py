"""The model folder: what is saved is what is loaded, or a sentence."""

import json
import shutil

import numpy as np
import pytest
import torch

from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor, load_folder
from outland.storage.files import canonical_json, digest
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from tests.estimators.cases import SMALL, bbbp


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def resealed(folder, change):
    """The folder after an honest change of its values."""
    path = folder / "state.json"
    state = json.loads(path.read_text())
    state.pop("seal")
    change(state["values"])
    path.write_text(json.dumps({**state, "seal": digest(canonical_json(state))}))
    return folder


def test_a_loaded_model_is_bit_equal(fitted, model_folder):
    smiles, _ = bbbp()
    loaded = GraphClassifier.load(model_folder)
    assert (loaded.predict_proba(smiles) == fitted.predict_proba(smiles)).all()
    assert (loaded.distance(smiles) == fitted.distance(smiles)).all()
    assert (loaded.model_.seen == fitted.model_.seen).all()
    assert loaded.get_params(deep=False) == fitted.get_params(deep=False)
    assert all(
        (one.node_mask == two.node_mask).all()
        for one, two in zip(loaded.explain(smiles[:9]), fitted.explain(smiles[:9]), strict=True)
    )


def test_the_folder_holds_plain_files_and_a_card(model_folder):
    assert sorted(path.name for path in model_folder.iterdir()) == ["README.md", "state.json", "tensors.safetensors"]
    values = json.loads((model_folder / "state.json").read_text())["values"]
    assert values["schema_version"] == 1
    assert values["featuriser"]["atoms"][0] == "atomic number"
    assert values["schema"]["node"]["vocabulary"][0] == 119
    assert {"outland", "torch", "rdkit", "scikit-learn"} <= set(values["about"]["versions"])
    card = (model_folder / "README.md").read_text()
    assert "A row's probability is that of 1; it is called so above" in card
    assert "Stable is what the method takes to decide the label" in card
    assert f"T = {values['calibration']['temperature']:.2f}" in card
    assert f"6 epochs, the best one (number {values['about']['best_epoch'] + 1})" in card  # from 1 on


@pytest.mark.parametrize("name", ["README.md", "state.json", "tensors.safetensors"])
def test_a_changed_byte_or_a_missing_file_is_refused(model_folder, tmp_path, name):
    folder = copied(model_folder, tmp_path)
    path = folder / name
    whole = path.read_bytes()
    for place in (len(whole) // 3, len(whole) - 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(OutlandError, match=r"has changed since it was written|cannot be read"):
            load_folder(folder)
    if name != "state.json":
        with pytest.raises(OutlandError, match=f"has changed since it was written: {name} is not what it was"):
            load_folder(folder)
    path.unlink()
    with pytest.raises(OutlandError, match=f"is not whole: {name} is missing"):
        load_folder(folder)


def test_a_newer_schema_and_what_is_no_model_are_refused(model_folder, tmp_path):
    newer = resealed(copied(model_folder, tmp_path), lambda values: values.update(schema_version=2))
    with pytest.raises(OutlandError, match=r"newer version of outland \(schema 2, this one reads up to 1\)"):
        load_folder(newer)
    resealed(newer, lambda values: values.update(kind="something else", schema_version=1))
    with pytest.raises(OutlandError, match="holds no model of `outland fit`"):
        load_folder(newer)
    path = newer / "state.json"
    path.write_text(path.read_text().replace("something else", "anything else"))
    with pytest.raises(OutlandError, match=r"changed since it was written: state\.json is not what it was"):
        load_folder(newer)
    with pytest.raises(OutlandError, match="is not a model folder: give the folder"):
        load_folder(tmp_path)
    with pytest.raises(OutlandError, match="there is no model folder"):
        load_folder(tmp_path / "nowhere")
    with pytest.raises(OutlandError, match="is a file, not a model folder"):
        load_folder(model_folder / "README.md")


def test_a_folder_that_names_code_is_refused_and_not_run(model_folder, tmp_path):
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    folder = resealed(copied(model_folder, tmp_path), lambda values: values.update(method=f"{trap}:Trap"))
    with pytest.raises(OutlandError, match="would have to run"):
        load_folder(folder)
    assert not (tmp_path / "sprung").exists()


def test_what_exists_is_not_overwritten(fitted, tmp_path):
    folder = fitted.save(tmp_path / "model")
    before = (folder / "state.json").read_bytes()
    with pytest.raises(OutlandError, match="exists: choose another name, or replace it with --force"):
        fitted.save(folder)
    assert (folder / "state.json").read_bytes() == before
    fitted.save(folder, force=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_text("cat")
    with pytest.raises(OutlandError, match="is not a model folder, and will not be replaced"):
        fitted.save(tmp_path / "photos", force=True)


def test_only_a_model_and_nothing_else_is_replaced(fitted, tmp_path):
    for name, content in (("project", '{"values": {"kind": "a game"}}'), ("list", "[1]"), ("torn", '{"values"')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text(content)
        with pytest.raises(OutlandError, match="is not a model folder, and will not be replaced"):
            fitted.save(tmp_path / name, force=True)
        assert (tmp_path / name / "state.json").read_text() == content
    folder = fitted.save(tmp_path / "model")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OutlandError, match=r"holds more than a model \(notes.txt\), and will not be replaced"):
        fitted.save(folder, force=True)
    assert (folder / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert load_folder(fitted.save(tmp_path / "empty", force=True)).classes == (0, 1)


def test_a_classifier_is_no_regressor(model_folder, tmp_path):
    with pytest.raises(OutlandError, match="predicts classes: load it with GraphClassifier"):
        GraphRegressor.load(model_folder)
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles, labels)
    loaded = GraphRegressor.load(model.save(tmp_path / "numbers"))
    assert (loaded.predict(smiles) == model.predict(smiles)).all()


def set_in(values, path, value):
    *way, last = path.split(".")
    for name in way:
        values = values[name]
    values[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("about.estimator.colour", "red", "unexpected keyword argument 'colour'"),
        ("about.estimator", [1], "about.estimator is not of the right kind"),
        ("distance.unit", "1", "distance is not of the right kind"),
        ("distance.unit", 0, "impossible"),
        ("distance.near", 1.0, "lack a number"),
        ("classes", [0], "it has 1 classes, and not as many outputs"),
        ("classes", [0, [1]], "classes is not of the right kind"),
        ("calibration.offset", [0.0, 0.0], "its calibration"),
        ("calibration.temperature", "hot", "its calibration"),
        ("scale", [0.0], "lack a number"),
        ("reads", "tea leaves", "reads is not of the right kind"),
        ("about.classes.training", [0, 0], "counted otherwise"),
        ("about.seed", "s", "about.seed is not of the right kind"),
    ],
)
def test_values_that_do_not_fit_together_are_a_sentence(model_folder, tmp_path, path, value, words):
    folder = resealed(copied(model_folder, tmp_path), lambda values: set_in(values, path, value))
    with pytest.raises(DamagedSnapshot, match=f"copy does not fit together: .*{words}"):
        GraphClassifier.load(folder)


@pytest.mark.parametrize("name", ["centre", "spread", "reference"])
@pytest.mark.parametrize("width", [1, 17])
def test_distances_of_other_embeddings_are_a_sentence(model_folder, tmp_path, name, width):
    saved = read_snapshot(model_folder)
    other = torch.ones(width) if name != "reference" else torch.ones(9, width)
    write_snapshot(tmp_path / "odd", Snapshot({**saved.tensors, f"familiar.{name}": other}, saved.values))
    with pytest.raises(DamagedSnapshot, match="its distances are of other embeddings"):
        load_folder(tmp_path / "odd")


def test_other_atom_features_are_refused(model_folder, tmp_path):
    folder = copied(model_folder, tmp_path)
    for path, value in (("featuriser.bonds", ["type"]), ("schema.node.vocabulary", [118, 5, 12, 12, 10, 6, 6, 2, 2])):
        with pytest.raises(
            OutlandError, match=r"was made with other atom features than this version .* use version \d"
        ):
            load_folder(resealed(folder, lambda values, path=path, value=value: set_in(values, path, value)))


def test_numbers_of_numpy_are_saved_as_plain_ones(tmp_path):
    smiles, labels = bbbp()
    model = GraphClassifier("erm", epochs=np.int64(1), backbone={"width": np.int64(8)}, random_state=np.int64(3))
    model.set_params(backbone__layers=np.int32(3), validation=np.float32(0.25)).fit(smiles[:80], labels[:80])
    loaded = GraphClassifier.load(model.save(tmp_path / "model"))
    assert loaded.get_params(deep=False) == model.get_params(deep=False)
    assert type(loaded.random_state) is int
    assert (loaded.predict_proba(smiles[:9]) == model.predict_proba(smiles[:9])).all()
