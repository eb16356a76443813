import sys

import pytest

from outland.cli import main
from outland.training import RunRecord, RunSpec, run
from outland.training.trackers import TRACKERS, TrackingCallback, flatten, scalars

SMALL = {"train": {"epochs": 3}, "data": {"limit": 48}, "backbone": {"width": 8}}


class Kept:
    """A tracker that keeps what it is told, and may fail at an epoch."""

    told: list = []
    fails_at: int | None = None

    def __init__(self, spec, folder):
        Kept.told.append(("begin", spec.slug, folder.name))

    def log(self, epoch, values):
        if epoch == Kept.fails_at:
            raise ConnectionError("nobody answers")
        Kept.told.append((epoch, values))

    def close(self):
        Kept.told.append("end")


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setitem(TRACKERS, "kept", ("json", Kept))
    Kept.told, Kept.fails_at = [], None
    return Kept


def test_a_tracker_is_told_what_the_record_says(motif, cache, tmp_path, kept):
    spec = RunSpec.make("motif", "erm", changes=SMALL)
    record = run(spec, tmp_path, device="cpu", cache=cache, callback=TrackingCallback("kept", tmp_path))
    begin, *epochs, end = kept.told
    assert (begin, end) == (("begin", spec.slug, spec.slug), "end")
    assert [epoch for epoch, _ in epochs] == [0, 1, 2]
    for (_, values), row in zip(epochs, record.curves, strict=True):
        assert values["val/accuracy"] == row["val"]["accuracy"]
        assert values["loss/risk.risk"] == row["loss"]["risk.risk"]


def test_a_tracker_that_fails_does_not_stop_the_run(motif, cache, tmp_path, kept, capsys):
    kept.fails_at = 1
    spec = RunSpec.make("motif", "erm", changes=SMALL)
    record = run(spec, tmp_path, device="cpu", cache=cache, callback=TrackingCallback("kept", tmp_path))
    assert len(record.curves) == 3
    assert [told[0] for told in kept.told] == ["begin", 0]
    assert "kept failed, and the run goes on without it: ConnectionError: nobody answers" in capsys.readouterr().err


def test_names_of_scalars_and_settings():
    row = {"epoch": 4, "loss": {"risk.risk": 0.5}, "diagnostics": {}, "val": {"accuracy": 1, "rocauc": None}}
    assert scalars(row) == {"loss/risk.risk": 0.5, "val/accuracy": 1.0}
    assert dict(flatten({"train": {"epochs": 3}, "seed": 0})) == {"train.epochs": 3, "seed": 0}


def _train(monkeypatch, cache, tmp_path, *words):
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    given = ["train", "motif", "--method", "erm", "--device", "cpu", "--out", str(tmp_path / "runs")]
    given += [
        part for group, rows in SMALL.items() for name, v in rows.items() for part in ("--set", f"{group}.{name}={v}")
    ]
    monkeypatch.setattr(sys, "argv", ["outland", *given, *words])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0


def test_tensorboard_holds_the_curves_of_every_seed(motif, cache, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: pip install 'outland[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert _train(monkeypatch, cache, tmp_path, "--track", "tensorboard", "--seeds", "2") == 0
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    for folder in folders:
        events = EventAccumulator(str(folder / "tensorboard")).Reload()
        curve = [point.value for point in events.Scalars("val/accuracy")]
        record = RunRecord.read(folder / "record.json")
        assert curve == pytest.approx([row["val"]["accuracy"] for row in record.curves])


def test_mlflow_holds_the_curves(motif, cache, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'outland[mlflow]'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path / 'mlruns'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    assert _train(monkeypatch, cache, tmp_path, "--track", "mlflow") == 0
    client = mlflow.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("outland").experiment_id])
    (path,) = (tmp_path / "runs").glob("*/record.json")
    curve = [point.value for point in client.get_metric_history(found.info.run_id, "val/accuracy")]
    assert curve == pytest.approx([row["val"]["accuracy"] for row in RunRecord.read(path).curves])
    assert (found.data.params["train.epochs"], found.info.status) == ("3", "FINISHED")


def test_wandb_is_told_offline(motif, cache, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="Weights & Biases is not installed: pip install 'outland[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert _train(monkeypatch, cache, tmp_path, "--track", "wandb") == 0
    (log,) = (tmp_path / "runs").glob("*/wandb/offline-run-*/*.wandb")
    assert b"val/accuracy" in log.read_bytes()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("tensorbored", "Did you mean 'tensorboard'"), ("wandb", "pip install 'outland[wandb]'")],
)
def test_a_tracker_that_is_not_there_is_a_sentence(cache, tmp_path, monkeypatch, capsys, name, sentence):
    monkeypatch.setattr("outland.training.trackers.find_spec", lambda package: None)
    assert _train(monkeypatch, cache, tmp_path, "--track", name) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
