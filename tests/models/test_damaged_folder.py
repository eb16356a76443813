"""Model folders that are damaged, or say what cannot be: each is refused with a sentence."""

import shutil
from dataclasses import replace

import pytest
import torch

from outland.errors import OutlandError
from outland.estimators import GraphClassifier
from outland.graphs import Task
from outland.models import load_model, save_model
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from tests.models.cases import forest_model, resealed, set_in, vectors


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


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
