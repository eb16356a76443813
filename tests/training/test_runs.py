import csv
import json
import math
import time
from dataclasses import replace

import pytest
import torch

from outland.datasets import TableSettings
from outland.models import load_model
from outland.spec import load_splits
from outland.training import RunRecord, RunSpec, evaluate, prepare, run
from outland.training.run_folder import RunFolder
from outland.training.runs import Training
from tests.conftest import SAMPLES
from tests.faults.children import command
from tests.faults.harness import begin, finish

WORDS = ["data.limit=96", "backbone.width=8", "train.epochs=5", "train.batch_size=16"]


def spec(*more, method="aia", seed=1, **rest):
    return RunSpec.from_words("motif", method, [*WORDS, *more], seed=seed, **rest)


def comparable(record):
    plain = dict(vars(record))
    plain.pop("timing")
    return plain


def test_run_leaves_record_and_model(tmp_path, cache):
    record = run(spec(), tmp_path, cache=cache)
    folder = RunFolder(tmp_path, spec())
    again = RunRecord.read(folder.record_path)
    assert comparable(again) == json.loads(json.dumps(comparable(record)))
    assert record.selected == "ood_val+burn_in"
    assert (
        record.test_score
        == record.selection["ood_val+burn_in"]["test"]
        == record.curves[record.selection["ood_val+burn_in"]["epoch"]]["test"]["accuracy"]
    )
    assert record.parameters["total"] == sum(v for k, v in record.parameters.items() if k not in ("total", "inference"))
    assert record.platform["torch"] == torch.__version__
    assert not folder.checkpoints.newest()
    method = load_model(folder.path).method
    assert set(record.masks["test"]) == {"rocauc", "precision_at_k"}
    _, splits = prepare(spec(), torch.device("cpu"), cache)

    assert evaluate(method, splits, 512)["test"]["accuracy"] == record.test_score


def test_run_killed_in_its_middle_ends_with_the_same_record(tmp_path, cache):
    expected = run(spec(), tmp_path / "whole", cache=cache)
    words = [word for setting in [*WORDS, "train.checkpoint_every=1"] for word in ("--set", setting)]
    words = ["train", "motif", "--method", "aia", "--seed", "1", *words, "--device", "cpu"]
    given = [*words, "--out", str(tmp_path / "killed"), "--resume"], tmp_path / "log", cache.folder
    folder = RunFolder(tmp_path / "killed", spec())
    kills = 0
    for wanted in (1, 3):
        process = begin(command, *given)
        while process.is_alive():
            if (folder.path / "checkpoints" / f"epoch-{wanted:05d}").exists():
                process.kill()
                kills += 1
                break
            time.sleep(0.002)
        process.join()
    assert kills == 2
    assert not folder.record_path.exists()
    finish(command, *given)
    assert "record.json" in (tmp_path / "log").read_text()
    record = RunRecord.read(folder.record_path)
    ours, theirs = comparable(record), json.loads(json.dumps(comparable(expected)))
    assert ours["spec"]["train"].pop("checkpoint_every") == 1
    assert theirs["spec"]["train"].pop("checkpoint_every") is None
    assert ours == theirs


def test_padded_run_equals_exact_run(tmp_path, cache):
    """Without dropout; to the rounding that another order of sums allows."""
    still = ["backbone.dropout=0", "train.epochs=2"]
    exact = run(spec(*still, method="erm"), tmp_path, cache=cache)
    padded = run(spec(*still, "train.layout=padded", method="erm"), tmp_path, cache=cache)
    for one, other in zip(exact.curves, padded.curves, strict=True):
        assert one["loss"]["risk.risk"] == pytest.approx(other["loss"]["risk.risk"], abs=1e-4)


def table_spec(file: str, target: str, *more: str, domain: str = "random") -> RunSpec:
    """A short run of ERM on a sample's table."""
    table = TableSettings(str(SAMPLES / file), target=(target,))
    words = ["backbone.width=8", "train.epochs=2", *more]
    return RunSpec.from_words(file, "erm", words, domain=domain, table=table)


def test_numbers_to_predict_are_standardized_and_scored_in_their_own_units(tmp_path, cache):
    """The same labels in another unit train the same weights, and the scores differ by the unit."""
    name, table = "measured log solubility in mols per litre", tmp_path / "esol.csv"
    with (SAMPLES / "esol.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    scale, shift = 1024.0, 4096.0  # powers of two: the standardized labels are the same to a few bits
    table.write_text(
        "smiles,y,z\n"
        + "".join(f"{row['smiles'].strip()},{row[name]},{scale * float(row[name]) + shift!r}\n" for row in rows)
    )
    specs = [table_spec(str(table), target, "train.select=last_epoch") for target in ("y", "z")]
    plain, scaled = (run(spec, tmp_path / "runs", cache=cache, device="cpu") for spec in specs)
    for one, other in zip(plain.curves, scaled.curves, strict=True):
        assert other["val"]["rmse"] == pytest.approx(scale * one["val"]["rmse"], rel=1e-4)
        assert other["test"]["rmse"] == pytest.approx(scale * one["test"]["rmse"], rel=1e-4)
        assert other["loss"]["risk.risk"] == pytest.approx(one["loss"]["risk.risk"], rel=1e-4)
    assert plain.curves[0]["loss"]["risk.risk"] < 4  # of labels with a spread of 1
    models = [load_model(RunFolder(tmp_path / "runs", spec).path) for spec in specs]
    assert models[1].task.std[0] == pytest.approx(scale * models[0].task.std[0], rel=1e-5)
    splits = load_splits(specs[1], cache=cache)
    held_out = splits.part("test")
    numbers = models[1].numbers(models[1].predict(held_out))
    labels = held_out.y.double().flatten().numpy()
    assert math.sqrt(((numbers - labels) ** 2).mean()) == pytest.approx(scaled.test_score, rel=1e-6)
    train = splits.graphs.y[splits["train"]].double()
    assert models[1].task.mean[0] == pytest.approx(float(train.mean()), rel=1e-9)
    assert models[1].task.std[0] == pytest.approx(float(train.std(correction=0)), rel=1e-9)


def test_descriptors_are_standardized_over_training_rows_and_kept_with_the_model(tmp_path, cache):
    spec = table_spec("bbbp.csv", "p_np", "backbone.kind=dmpnn", "backbone.descriptors=yes", "train.epochs=1")
    assert spec.key != replace(spec, backbone=replace(spec.backbone, descriptors=False)).key
    run(spec, tmp_path, cache=cache)
    model, splits = load_model(RunFolder(tmp_path, spec).path), load_splits(spec, cache=cache)
    train = splits.part("train").extra["descriptors"]
    state = model.method.state_dict()
    assert torch.allclose(state["classifier.descriptors.mean"], train.mean(0), rtol=1e-4, atol=1e-4)
    held_out = splits.part("test")
    shuffled = {**held_out.extra, "descriptors": held_out.extra["descriptors"].flip(0)}
    outputs = [model.predict(graphs).outputs for graphs in (held_out, replace(held_out, extra=shuffled))]
    assert not torch.allclose(*outputs)


def test_class_balance_is_a_setting_of_training(cache):
    balanced, plain = (
        table_spec("bbbp.csv", "p_np", f"train.class_balance={word}", domain="scaffold") for word in ("yes", "no")
    )
    assert table_spec("bbbp.csv", "p_np", domain="scaffold") == plain  # the recipe of tables
    splits = load_splits(plain, cache=cache)
    device = torch.device("cpu")
    ours, theirs = (Training(spec, splits, device) for spec in (balanced, plain))
    labels = splits.graphs.y[splits["train"]].flatten()
    counts = [int((labels == label).sum()) for label in (0, 1)]
    assert theirs.data.class_counts == theirs.data.class_draws == ours.data.class_counts == counts
    assert ours.data.class_draws == [max(counts), max(counts)]
    assert [len(training.trainer.splits["train"]) for training in (ours, theirs)] == [2 * max(counts), sum(counts)]
    assert len(ours.splits["train"]) == sum(counts)  # the data themselves stay as they are


@pytest.mark.parametrize(("samples", "epochs"), [(10, 4), (1192, 4), (1500, 5), (3000, 10), (10**6, 40)])
def test_epochs_follow_from_the_samples(cache, samples, epochs):
    spec = table_spec("bbbp.csv", "p_np", "train.epochs=7", f"train.total_samples={samples}", "train.class_balance=no")
    splits = load_splits(spec, cache=cache)
    whole = replace(splits, parts={**splits.parts, "train": torch.arange(298)})
    trainer = Training(spec, whole, torch.device("cpu")).trainer
    assert (trainer.settings.epochs, trainer.settings.total_samples) == (epochs, None)
    assert spec.train.epochs == 7


def test_a_run_of_total_samples_records_its_epochs(tmp_path, cache):
    spec = table_spec("bbbp.csv", "p_np", "train.total_samples=20", "data.limit=20")
    record = run(spec, tmp_path, cache=cache, device="cpu")
    assert len(record.curves) == load_model(RunFolder(tmp_path, spec).path).training.epochs == 4
    assert record.spec["train"]["total_samples"] == 20
