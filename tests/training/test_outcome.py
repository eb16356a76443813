"""What a finished training leaves."""

from dataclasses import replace

import pytest
import torch

from outland.chem.elements import SYMBOLS
from outland.datasets import TableSettings
from outland.errors import OutlandError
from outland.models import load_model, save_model
from outland.models.calibration import calibrate
from outland.models.knn import KNNDistance
from outland.models.members import run_batches
from outland.spec import RunSpec, load_splits
from outland.tables.duplicates import sorted_hashes
from outland.training.runs import Training
from tests.cli.cases import guide_example
from tests.models.cases import TABLE, bbbp

CPU = torch.device("cpu")


def trained(spec, splits):
    training = Training(spec, splits, CPU)
    for _ in training.steps():
        pass
    return training


def table_spec(*more, target="p_np", file=TABLE):
    table = TableSettings(str(file), target=(target,))
    words = ["backbone.width=8", "train.epochs=2", *more]
    return RunSpec.from_words("t", "erm", words, domain="random", seed=3, table=table)


def test_the_model_of_a_table_is_calibrated_and_knows_its_training_rows(cache):
    spec = table_spec()
    splits = load_splits(spec, cache=cache)
    training = trained(spec, splits)
    model, record = training.model(), training.record()
    assert (model.spec, model.targets, model.classes, model.source) == (spec, ["p_np"], ("0", "1"), "")
    offset = torch.tensor(training.data.class_counts).log() - torch.tensor(training.data.class_draws).log()
    assert model.network.offset == (pytest.approx(float(offset[1] - offset[0]), rel=1e-5),)
    expected = calibrate(model.network.outputs(splits.part("val")), splits.part("val").y, model.task)
    assert model.calibration == expected
    sizes = {name: len(index) for name, index in splits.parts.items()}
    assert model.training.graphs == record.data["sizes"] == sizes
    assert (model.training.epochs, model.training.best_epoch) == (2, record.selection[record.selected]["epoch"])
    assert model.training.data == record.data
    rows = torch.cat([splits["train"], splits["val"]])
    assert len(model.training_hashes) == len(splits.graphs.extra["hash"][rows].unique())
    assert torch.isin(model.training_hashes, sorted_hashes(bbbp()[0])).all()
    assert {"C", "N", "O"} < {SYMBOLS[number] for number in model.training_elements.tolist()}


def test_training_graphs_are_kept_where_they_cannot_be_loaded_again(motif, cache):
    spec = table_spec()
    splits = load_splits(spec, cache=cache)
    reference = trained(spec, splits).model().reference
    assert len(reference) == len(splits["train"])
    assert (reference.environment, set(reference.extra)) == (None, {"fingerprint", "descriptors", "counts"})
    benchmark = RunSpec.from_words("motif", "erm", ["backbone.width=8", "train.epochs=1", "data.limit=24"])
    model = trained(benchmark, load_splits(benchmark, cache=cache)).model()
    assert model.reference is None
    assert (model.classes, len(model.training_hashes), len(model.training_elements)) == (("0", "1", "2"), 0, 0)
    assert model.network.offset == (0.0, 0.0, 0.0)


def test_distances_are_to_training_embeddings(cache):
    spec = table_spec()
    splits = load_splits(spec, cache=cache)
    model = trained(spec, splits).model()
    generator = torch.Generator().manual_seed(spec.seed)
    drawn = splits["train"][torch.randperm(len(splits["train"]), generator=generator)]
    expected = KNNDistance.fit(run_batches([model.method], splits.graphs.select(drawn))[0][1], spec.seed)
    assert (model.distance.unit, model.distance.far) == (expected.unit, expected.far)
    assert torch.equal(model.distance.reference, expected.reference)


def test_classes_have_the_names_of_the_table(tmp_path, cache):
    table = tmp_path / "named.csv"
    smiles, labels = bbbp()
    rows = [f"{text},{('inactive', 'active')[label]}\n" for text, label in zip(smiles[:60], labels[:60], strict=True)]
    table.write_text("smiles,y\n" + "".join(rows))
    spec = table_spec("train.epochs=1", target="y", file=table)
    assert trained(spec, load_splits(spec, cache=cache)).model().classes == ("inactive", "active")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_source_of_a_method_is_kept_as_it_is(tmp_path, cache, end):
    path = tmp_path / "yours.py"
    path.write_bytes(guide_example().replace("\n", end).encode())
    words = ["backbone.width=8", "train.epochs=1", "data.limit=24"]
    spec = RunSpec.from_words("motif", f"{path}:Yours", words)
    model = trained(spec, load_splits(spec, cache=cache)).model()
    folder = save_model(model, tmp_path / "model")
    assert (folder / "method.py").read_bytes() == path.read_bytes()
    loaded = load_model(folder, trust_code=True)
    assert loaded.source == model.source
    assert loaded.spec.code == spec.code
    changed = save_model(replace(model, source=model.source + "\n# more\n"), tmp_path / "changed")
    with pytest.raises(OutlandError, match=r"method\.py is not the file that it was trained with"):
        load_model(changed, trust_code=True)


def test_a_method_s_file_must_be_utf8(tmp_path, cache):
    path = tmp_path / "yours.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9\n" + guide_example().encode())
    spec = RunSpec.from_words("motif", f"{path}:Yours", ["data.limit=24"])
    with pytest.raises(OutlandError, match=r"yours\.py must be UTF-8"):
        Training(spec, load_splits(spec, cache=cache), CPU)


def test_a_method_s_file_that_has_changed_since_its_spec_is_refused(tmp_path, cache):
    path = tmp_path / "yours.py"
    path.write_text(guide_example())
    spec = RunSpec.from_words("motif", f"{path}:Yours", ["data.limit=24"])
    path.write_text(guide_example() + "# more\n")
    with pytest.raises(OutlandError, match=r"yours\.py has changed since the run was specified"):
        Training(spec, load_splits(spec, cache=cache), CPU)


def test_code_of_a_folder_is_run_only_if_it_is_the_specs_own(tmp_path, cache):
    path, ran = tmp_path / "yours.py", tmp_path / "ran"
    path.write_text(guide_example())
    spec = RunSpec.from_words("motif", f"{path}:Yours", ["backbone.width=8", "train.epochs=1", "data.limit=24"])
    model = trained(spec, load_splits(spec, cache=cache)).model()
    other = guide_example() + f"\nopen({str(ran)!r}, 'w').close()\n"
    folder = save_model(replace(model, source=other), tmp_path / "model")
    with pytest.raises(OutlandError, match=r"method\.py is not the file that it was trained with"):
        load_model(folder, trust_code=True)
    assert not ran.exists()
