"""The model folder: what is saved is what is loaded, or a sentence."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.graphs import Task
from outland.models import evaluate_models, load_model, save_model
from outland.models.folder import ModelFile
from outland.models.gaussian_process import fit_gp
from outland.models.predicted_rows import predict_rows
from outland.models.trees import fit_forest
from outland.storage.files import canonical_json, digest
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from tests.models.cases import SMALL, bbbp, forest_model, vectors


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
    assert (loaded.model_.training_hashes == fitted.model_.training_hashes).all()
    assert all(
        (one.node_mask == two.node_mask).all()
        for one, two in zip(loaded.explain(smiles[:9]), fitted.explain(smiles[:9]), strict=True)
    )


def test_the_folder_holds_plain_files_and_a_card(model_folder):
    assert sorted(path.name for path in model_folder.iterdir()) == ["README.md", "state.json", "tensors.safetensors"]
    values = json.loads((model_folder / "state.json").read_text())["values"]
    assert ModelFile(**values).version == 3
    assert values["featurizer"]["atoms"][0] == "atomic number"
    assert values["schema_"]["node"]["vocabulary"][0] == 119
    assert {"outland", "torch", "rdkit", "scikit-learn"} <= set(values["versions"])
    assert values["spec"]["train"]["epochs"] == values["training"]["epochs"] == 6
    assert 0 <= values["training"]["best_epoch"] < 6


@pytest.mark.parametrize("names", [("no", "yes"), (False, True), (0, 1), (0.0, 1.0), (2.0, 7.0)])
def test_names_of_classes_stay_what_they_are(fitted, tmp_path, names):
    loaded = load_model(save_model(replace(fitted.model_, classes=names), tmp_path / "model"))
    assert loaded.classes == names
    assert [type(name) for name in loaded.classes] == [type(name) for name in names]


@pytest.mark.parametrize("name", ["README.md", "state.json", "tensors.safetensors"])
def test_a_changed_byte_or_a_missing_file_is_refused(model_folder, tmp_path, name):
    folder = copied(model_folder, tmp_path)
    path = folder / name
    whole = path.read_bytes()
    for place in (len(whole) // 3, len(whole) - 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(OutlandError, match=r"has changed since it was written|cannot be read"):
            load_model(folder)
    if name != "state.json":
        with pytest.raises(OutlandError, match=f"has changed since it was written: {name} is not what it was"):
            load_model(folder)
    path.unlink()
    with pytest.raises(OutlandError, match=f"is not whole: {name} is missing"):
        load_model(folder)


def test_a_newer_schema_and_what_is_no_model_are_refused(model_folder, tmp_path):
    newer = resealed(copied(model_folder, tmp_path), lambda values: values.update(version=4))
    with pytest.raises(OutlandError, match=r"newer version of outland \(format 4, this one reads 3\)"):
        load_model(newer)
    resealed(newer, lambda values: values.update(schema_version=1) or values.pop("version"))
    with pytest.raises(OutlandError, match=r"written by an older version of outland \(format 1\): fit it again"):
        load_model(newer)
    resealed(newer, lambda values: values.update(kind="something else", version=3))
    with pytest.raises(OutlandError, match="holds no model of outland"):
        load_model(newer)
    path = newer / "state.json"
    path.write_text(path.read_text().replace("something else", "anything else"))
    with pytest.raises(OutlandError, match=r"changed since it was written: state\.json is not what it was"):
        load_model(newer)
    with pytest.raises(OutlandError, match="is not a model folder: give the folder"):
        load_model(tmp_path)
    with pytest.raises(OutlandError, match="there is no model folder"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(OutlandError, match="is a file, not a model folder"):
        load_model(model_folder / "README.md")


def test_a_folder_that_names_code_is_refused_and_not_run(model_folder, tmp_path):
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    folder = resealed(copied(model_folder, tmp_path), lambda values: set_in(values, "spec.method", f"{trap}:Trap"))
    with pytest.raises(OutlandError, match=r"the method Trap of .* which loading has to run: read .*method.py, and"):
        load_model(folder)
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
    assert load_model(fitted.save(tmp_path / "empty", force=True)).classes == (0, 1)


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
        values = values[int(name) if name.isdigit() else name]
    values[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("training.colour", "red", "training.colour Extra inputs are not permitted"),
        ("colour", "red", "colour Extra inputs are not permitted"),
        ("training", [1], "training Input should be"),
        ("training.epochs", "6", "training.epochs Input should be a valid integer"),
        ("distance.unit", "1", "distance.unit Input should be a valid number"),
        ("distance.unit", 0.0, "impossible"),
        ("distance.near", 1.0, "distance.near Extra inputs are not permitted"),
        ("classes", [0.0], "it has 1 classes, and not as many outputs"),
        ("classes", [0, [1]], "classes"),
        ("calibration.offset", [0.0, 0.0], "its calibration"),
        ("calibration.temperature", "hot", "calibration.temperature Input should be a valid list"),
        ("calibration.temperature", [0.0], "impossible"),
        ("calibration.reason", 3, "calibration.reason Input should be a valid string"),
        ("members", [], "it has no members"),
        ("members.0.kind", "oracle", "members.0 Input tag 'oracle'"),
        ("members.0.offset", [0.0, 0.0], "the offset of a network is of another task"),
        ("members.0.spec.seed", "s", "run.seed takes a whole number"),
        ("weights", [0.5, 0.5], "its weights are not those of its members"),
        ("weights", [0.5], "its weights do not sum to 1"),
        ("schema_.task.std", [1.0], "the schema has an impossible task"),
        ("reads", "tea leaves", "reads Input should be 'molecules' or 'graphs'"),
        ("training.class_counts", [0, 0], "counted otherwise"),
        ("training.class_counts", [], "counted otherwise"),
        ("training.class_draws", [1], "counted otherwise"),
        ("spec.seed", "s", "run.seed takes a whole number"),
        ("spec.method_params.gamma", "big", "method.gamma takes a number"),
        ("spec.table", {"file": "t.csv", "target": ["a", "b"]}, "it has 2 targets, and not as many outputs"),
        ("assessment", {"scores": []}, "its scores are of other targets"),
        ("assessment", {"scores": [{"part": "test"}]}, "assessment.scores.0.target Field required"),
    ],
)
def test_values_that_do_not_fit_together_are_a_sentence(model_folder, tmp_path, path, value, words):
    folder = resealed(copied(model_folder, tmp_path), lambda values: set_in(values, path, value))
    with pytest.raises(DamagedSnapshot, match=f"copy does not fit together: .*{words}"):
        GraphClassifier.load(folder)


@pytest.mark.parametrize("name", ["center", "scale", "reference"])
@pytest.mark.parametrize("width", [1, 17])
def test_distances_of_other_embeddings_are_a_sentence(model_folder, tmp_path, name, width):
    saved = read_snapshot(model_folder)
    other = torch.ones(width) if name != "reference" else torch.ones(9, width)
    write_snapshot(tmp_path / "odd", Snapshot({**saved.tensors, f"distance.{name}": other}, saved.values))
    with pytest.raises(DamagedSnapshot, match="its distances are of other embeddings"):
        load_model(tmp_path / "odd")


def test_other_atom_features_are_refused(model_folder, tmp_path):
    folder = copied(model_folder, tmp_path)
    for path, value in (("featurizer.bonds", ["type"]), ("schema_.node.vocabulary", [118, 5, 12, 12, 10, 6, 6, 2, 2])):
        with pytest.raises(
            OutlandError, match=r"was made with other atom features than this version .* use version \d"
        ):
            load_model(resealed(folder, lambda values, path=path, value=value: set_in(values, path, value)))


def test_trees_from_before_there_were_counts_are_read_and_say_the_same(tmp_path):
    graphs = read_inputs(bbbp()[0][:60]).graphs
    graphs = replace(graphs, y=torch.tensor(bbbp()[1][:60]).float()[:, None])
    before = replace(graphs, extra={name: graphs.extra[name] for name in ("fingerprint", "descriptors")})
    model = forest_model(Task("binary", 1, "rocauc"), before)
    folder = resealed(save_model(model, tmp_path / "m"), lambda values: values["featurizer"].pop("counts"))
    loaded = load_model(folder)
    assert torch.equal(loaded.predict(graphs).outputs, model.predict(before).outputs)
    assert model.predict(graphs).outputs.std() > 0.5
    with pytest.raises(OutlandError, match="was made with other atom features"):
        load_model(resealed(folder, lambda values: set_in(values, "featurizer.counts", ["mqn-fragments-2"])))


def test_numbers_of_numpy_are_saved_as_plain_ones(tmp_path):
    smiles, labels = bbbp()
    backbone = {"width": np.int64(8), "layers": np.int32(3)}
    model = GraphClassifier("erm", epochs=np.int64(1), backbone=backbone, random_state=np.int64(3))
    model.set_params(validation=np.float32(0.25)).fit(smiles[:80], labels[:80])
    loaded = GraphClassifier.load(model.save(tmp_path / "model"))
    assert (type(loaded.random_state), loaded.random_state) == (int, 3)
    assert (loaded.epochs, loaded.validation, loaded.backbone["width"]) == (1, 0.25, 8)
    assert (loaded.predict_proba(smiles[:9]) == model.predict_proba(smiles[:9])).all()


def test_a_model_of_trees_alone_predicts_and_comes_back(tmp_path):
    graphs = vectors(80)
    y = torch.stack([(graphs.extra["descriptors"][:, 0] > 0).float()] * 2, 1)
    model = forest_model(Task("binary", 2, "rocauc"), replace(graphs, y=y))
    loaded = load_model(save_model(model, tmp_path / "forest"))
    assert (loaded.name, loaded.method, loaded.network, loaded.kind) == ("forest", None, None, "molecules")
    predictions = loaded.predict(graphs)
    assert (predictions.outputs == model.predict(graphs).outputs).all()
    assert (predictions.embeddings, predictions.distances) == (None, None)
    assert ((loaded.probabilities(predictions) > 0.5) == loaded.decisions(predictions)).all()
    assert evaluate_models([loaded], replace(graphs, y=y))[0].score.value > 0.9
    assert predict_rows(loaded, graphs)[0].keys() >= {"outland_probability_label0", "outland_class_label1"}
    assert "Trained by forest with outland" in (tmp_path / "forest" / "README.md").read_text()


def test_a_gaussian_process_comes_back_and_is_checked(tmp_path):
    graphs = vectors(80)
    task = Task("regression", 1, "rmse")
    graphs = replace(graphs, y=graphs.extra["descriptors"][:, 1:2].nan_to_num())
    model = replace(forest_model(task, graphs), members=(fit_gp(graphs, task, 0),))
    loaded = load_model(save_model(model, tmp_path / "gp"))
    assert loaded.name == "gp"
    assert (loaded.predict(graphs).outputs == model.predict(graphs).outputs).all()
    saved = read_snapshot(tmp_path / "gp")
    tensors = {**saved.tensors, "member.0.link": saved.tensors["member.0.link"][:, :1].contiguous()}
    write_snapshot(tmp_path / "changed", Snapshot(tensors, saved.values))
    with pytest.raises(DamagedSnapshot, match="the parts of its Gaussian process do not fit"):
        load_model(tmp_path / "changed")


def test_trees_with_a_cycle_are_a_sentence(tmp_path):
    graphs = vectors(60)
    task = Task("regression", 1, "rmse")
    model = forest_model(task, replace(graphs, y=graphs.extra["descriptors"][:, 1:2].nan_to_num()))
    saved = read_snapshot(save_model(model, tmp_path / "forest"))
    for name, words in (("child", "child is not after it"), ("feature", "feature that there is not")):
        tensors = {**saved.tensors, f"member.0.{name}": -saved.tensors[f"member.0.{name}"] - 1}
        write_snapshot(tmp_path / name, Snapshot(tensors, saved.values))
        with pytest.raises(DamagedSnapshot, match=f"does not fit together: .*{words}"):
            load_model(tmp_path / name)


def test_members_are_averaged_by_their_weights(fitted, tmp_path):
    network, graphs = fitted.model_.members[0], read_inputs(bbbp()[0][:40]).graphs
    graphs = replace(graphs, y=torch.tensor([[0.0], [1.0]] * 20))
    forest = fit_forest(graphs, fitted.model_.task, 0, trees=5)
    model = replace(fitted.model_, members=(network, forest), weights=(0.25, 0.75))
    expected = 0.25 * network.outputs(graphs) + 0.75 * forest.outputs(graphs)
    assert torch.allclose(model.predict(graphs).outputs, expected)
    assert torch.allclose(replace(model, weights=()).predict(graphs).outputs, model.predict(graphs).members.mean(1))
    loaded = load_model(save_model(model, tmp_path / "both"))
    assert (loaded.predict(graphs).outputs == model.predict(graphs).outputs).all()
    assert (loaded.name, loaded.method.name) == ("aia and forest", "aia")
    assert "mean of 2 models, trained with outland: 25% aia, 75% forest" in (tmp_path / "both/README.md").read_text()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("group", ["member.0", "distance.center", "distance.scale", "distance.reference"])
def test_numbers_that_are_not_finite_are_refused(model_folder, tmp_path, group, value):
    saved = read_snapshot(model_folder)
    name = next(
        name for name, tensor in saved.tensors.items() if name.startswith(group) and tensor.dtype.is_floating_point
    )
    tensors = {**saved.tensors, name: saved.tensors[name].clone()}
    tensors[name].view(-1)[0] = value
    write_snapshot(tmp_path / "odd", Snapshot(tensors, saved.values))
    with pytest.raises(DamagedSnapshot, match=r"does not fit together: a (weight|number of its distances) is not fin"):
        load_model(tmp_path / "odd")
