"""Predictions for a dataset's part."""

import csv
import gzip

import pytest

from outland.errors import OutlandError
from outland.models import load_model
from outland.models.part_predictions import predict_part
from outland.models.predicted_rows import predict_rows
from outland.spec import load_splits
from outland.training import RunSpec, run
from outland.training.run_folder import RunFolder


def test_a_part_becomes_a_table(motif, cache, tmp_path):
    spec = RunSpec.from_words("motif", "aia", ["data.limit=48", "backbone.width=8", "train.epochs=1"])
    run(spec, tmp_path / "runs", device="cpu", cache=cache)
    model = load_model(RunFolder(tmp_path / "runs", spec).path)
    report, graphs = predict_part(model, "val", tmp_path / "out.csv.gz", cache=cache)
    with gzip.open(tmp_path / "out.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        "graph",
        "label",
        "outland_probability",
        "outland_class",
        *(f"outland_probability_{name}" for name in model.classes),
        "outland_distance",
        "outland_flag",
        "outland_problem",
    ]
    expected = load_splits(spec, cache=cache).part("val")
    assert [int(row["label"]) for row in rows] == expected.y.tolist() == graphs.y.tolist()
    for row, prediction in zip(rows, predict_rows(model, expected), strict=True):
        assert prediction.items() <= row.items()
        assert 1 / 3 <= float(row["outland_probability"]) <= 1  # of the class that is called
    assert (report.rows, report.bad, report.training_rows) == (48, 0, 0)
    assert sum(report.classes["label"].values()) == sum(report.flags.values()) == 48
    with pytest.raises(OutlandError, match="exists: choose another --out, or replace it with --force"):
        predict_part(model, "val", tmp_path / "out.csv.gz", cache=cache)
    assert predict_part(model, "test", tmp_path / "out.csv.gz", force=True, cache=cache)[0].rows == 48
    with pytest.raises(OutlandError, match=r"must end in \.csv"):
        predict_part(model, "val", tmp_path / "out.sdf", cache=cache)
