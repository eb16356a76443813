"""The model folder: what is saved is what is loaded, or a sentence."""

import json
import shutil

import pytest

from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor, load_folder
from outland.files import canonical_json, digest
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
