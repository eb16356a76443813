"""The model folder: what is saved is what is loaded."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from outland.chem.featurizer import ATOMS
from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.estimators.inputs import read_inputs
from outland.graphs import Task
from outland.models import evaluate_models, load_model, save_model
from outland.models.folder import ModelFile
from outland.models.gaussian_process import fit_gp
from outland.models.model import Predictions
from outland.models.predicted_rows import predict_rows
from outland.models.trees import fit_forest
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from tests.models.cases import SMALL, bbbp, forest_model, resealed, set_in, vectors


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


def test_a_model_from_before_cip_codes_reads_tags_as_it_did(fitted, tmp_path):
    """Two ways to write one molecule: to such a model they are two, and to one of today the same."""
    same = ["C[C@H](N)C(=O)OCC", "N[C@@H](C)C(=O)OCC"]

    def older(values):
        del values["schema_"]["node"]["version"]
        values["featurizer"]["atoms"][1] = "chirality"

    folder = save_model(fitted.model_, tmp_path / "m")
    before = GraphClassifier.load(resealed(folder, older))
    expected = before.model_.predict(read_inputs(same, atoms=ATOMS).graphs).outputs
    assert before.model_.schema.node == ATOMS
    assert np.allclose(before.predict_proba(same)[:, 1], before.model_.probabilities(Predictions(expected))[:, 1])
    assert np.ptp(before.predict_proba(same)[:, 1]) > 1e-4
    assert np.ptp(fitted.predict_proba(same)[:, 1]) < 1e-6
    with pytest.raises(OutlandError, match="was made with other atom features"):
        load_model(resealed(folder, lambda values: set_in(values, "schema_.node.version", "cip-1")))


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
