"""Labelled graphs for a model, by name."""

from dataclasses import replace

import pytest
import torch

from outland.datasets import TableSettings
from outland.errors import OutlandError
from outland.estimators import GraphClassifier, GraphRegressor
from outland.graphs import Cache, Task
from outland.models import load_model
from outland.models.named_graphs import load_labelled_table, load_part, part_title
from outland.spec import RunSpec, load_splits
from outland.training import run
from outland.training.run_folder import RunFolder
from tests.models.cases import SMALL, TABLE, bbbp


@pytest.fixture(scope="module")
def motif_model(motif, cache, tmp_path_factory):
    """A run on Motif, forty-eight graphs a part."""
    folder = tmp_path_factory.mktemp("named")
    spec = RunSpec.from_words("motif", "erm", ["data.limit=48", "backbone.width=8", "train.epochs=1"])
    run(spec, folder, device="cpu", cache=cache)
    return load_model(RunFolder(folder, spec).path)


def test_a_part_of_the_models_own_data_is_as_it_was_trained(motif, motif_model, cache):
    own = load_part(motif_model, "test", cache)
    expected = load_splits(motif_model.spec, cache=cache).part("test")
    assert torch.equal(own.y, expected.y)
    assert torch.equal(own.edge_index, expected.edge_index)
    whole = load_part(motif_model, "motif/base:test", cache)
    assert (len(own), len(whole)) == (48, 3000)
    assert part_title(motif_model, "test") == "motif/base:test"
    assert part_title(motif_model, "motif/size:test") == "motif/size:test"
    with pytest.raises(OutlandError, match=r"unknown part of motif 'tset'\. Did you mean 'test'"):
        load_part(motif_model, "tset", cache)


def test_a_part_of_another_domain_has_the_descriptors_that_the_model_reads(data, cache, tmp_path):
    words = ["data.limit=40", "backbone.width=8", "train.epochs=1", "backbone.descriptors=true"]
    spec = RunSpec.from_words("molbbbp", "erm", words, domain="scaffold")
    run(spec, tmp_path, device="cpu", cache=cache, data=data)
    model = load_model(RunFolder(tmp_path, spec).path)
    graphs = load_part(model, "molbbbp/size:test", cache, data)
    assert graphs.extra["descriptors"].shape == (len(graphs), 69)
    assert model.predict(graphs.select(torch.arange(8))).outputs.isfinite().all()


def test_a_model_of_graphs_without_descriptors_has_parts_of_datasets(motif, cache):
    graphs = motif.part("train").select(torch.arange(90))
    model = GraphClassifier("erm", epochs=1, backbone=SMALL, domain="random")
    model = model.fit(graphs.to_data_list(), graphs.y.tolist()).model_
    assert model.spec.backbone.descriptors
    part = load_part(model, "motif/base:test", cache)
    assert len(part) == 3000
    assert model.predict(part.select(torch.arange(8))).outputs.shape == (8, 3)


def test_parts_that_a_model_cannot_have(fitted, motif_model, cache):
    with pytest.raises(OutlandError, match="was trained on graphs in memory: name a table or DATASET/DOMAIN:PART"):
        load_part(fitted.model_, "test", cache)
    with pytest.raises(OutlandError, match="motif/base:test has other features than the graphs that the model reads"):
        load_part(fitted.model_, "motif/base:test", cache)
    with pytest.raises(OutlandError, match="reads graphs, not molecules"):
        load_labelled_table(motif_model, TABLE, "smiles")


def test_the_parts_of_a_table_that_has_changed_are_those_that_were_read_or_refused(fitted, tmp_path, cache):
    file = tmp_path / "t.csv"
    smiles, labels = bbbp()
    file.write_text("smiles,y\n" + "".join(f"{text},{label}\n" for text, label in zip(smiles, labels, strict=True)))
    table = TableSettings(str(file), target=("y",)).opened()
    spec = RunSpec.make("t", "erm", table=table, domain="random")
    model = replace(fitted.model_, spec=spec)
    assert len(load_part(model, "train", cache)) == len(load_splits(spec, cache=cache)["train"])
    with file.open("a") as stream:
        stream.write("CCO,1\n")
    assert len(load_part(model, "train", cache)) == len(load_splits(spec, cache=cache)["train"])
    with pytest.raises(OutlandError, match=r"t\.csv has changed since it was first read"):
        load_part(model, "train", Cache(tmp_path / "empty"))
    file.unlink()
    assert len(load_part(model, "train", cache)) == len(load_splits(spec, cache=cache)["train"])


def test_labels_of_a_table_are_numbered_as_the_models_classes(fitted, tmp_path):
    graphs, notes = load_labelled_table(fitted.model_, TABLE, "smiles", ["p_np"])
    assert graphs.y.flatten().tolist() == bbbp()[1]
    assert notes == [
        "bbbp.csv: 2 rows set aside; the first: row 60, RDKit cannot read the SMILES ('" + notes[0].split("('")[1]
    ]
    (tmp_path / "t.csv").write_text("mol;y\nCCO;Yes\nCCN;no\nCCC;\nCCF;maybe\n")
    named = replace(fitted.model_, classes=("no", "yes"))
    graphs, notes = load_labelled_table(named, tmp_path / "t.csv", "mol", ["y"])
    assert graphs.y.flatten().tolist() == [1.0, 0.0]
    assert notes[0].startswith("t.csv: 2 rows set aside; the first: row 3, no label")
    swapped, _ = load_labelled_table(replace(named, classes=("yes", "no")), tmp_path / "t.csv", "mol", ["y"])
    assert swapped.y.flatten().tolist() == [0.0, 1.0]
    with pytest.raises(OutlandError, match="the model predicts label: name as many --target columns"):
        load_labelled_table(named, tmp_path / "t.csv", "mol", ["y", "y"])
    with pytest.raises(OutlandError, match=r"unknown column of t\.csv 'label'"):
        load_labelled_table(named, tmp_path / "t.csv", "mol")


def test_numbers_of_a_table_are_read_in_their_own_units(tmp_path):
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles[:60], [100.0 * y for y in labels[:60]]).model_
    (tmp_path / "t.csv").write_text("smiles,y,z\nCCO,250,1\nCCN,-3.5,\n")
    graphs, _ = load_labelled_table(model, tmp_path / "t.csv", "smiles", ["y"])
    assert graphs.y.flatten().tolist() == [250.0, -3.5]
    graphs, notes = load_labelled_table(model, tmp_path / "t.csv", "smiles", ["z"])
    assert (graphs.y.flatten().tolist(), len(notes)) == ([1.0], 1)


def test_numbers_of_classes_are_read_in_any_spelling(fitted, tmp_path):
    (tmp_path / "t.csv").write_text("smiles,y\nCCO,1.0\nCCN,0\nCCC,True\nCCF,2\n")
    for classes in (("0", "1"), (0, 1), (0.0, 1.0)):
        graphs, notes = load_labelled_table(
            replace(fitted.model_, classes=classes), tmp_path / "t.csv", "smiles", ["y"]
        )
        assert graphs.y.flatten().tolist() == [1.0, 0.0, 1.0]
        assert notes[0].startswith("t.csv: 1 row set aside; the first: row 4")
    others, _ = load_labelled_table(replace(fitted.model_, classes=(2, 1)), tmp_path / "t.csv", "smiles", ["y"])
    assert others.y.flatten().tolist() == [1.0, 1.0, 0.0]


def test_a_part_of_another_task_is_refused(motif_model, cache):
    other = replace(motif_model, schema=replace(motif_model.schema, task=Task("binary", 1, "rocauc")))
    with pytest.raises(OutlandError, match="motif/base:test has labels of another task than the model's"):
        load_part(other, "motif/base:test", cache)
