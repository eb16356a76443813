"""`outland train --seeds`."""

import json

import pytest

from tests.cli.cases import TINY
from tests.conftest import SAMPLES


def test_several_seeds_at_once(outland, tmp_path):
    done = outland("train", "motif", "--method", "erm", "--seeds", "2", *TINY)
    assert done.returncode == 0, done.stderr
    records = sorted(tmp_path.glob("runs/*/record.json"))
    assert [json.loads(record.read_text())["spec"]["seed"] for record in records] == [3, 4]
    tests = [100 * json.loads(record.read_text())["selection"]["ood_val+burn_in"]["test"] for record in records]
    assert f"{sum(tests) / 2:.2f} ± {abs(tests[0] - tests[1]) / 2:.2f}" in done.stdout
    assert "4 of 4 epochs of all runs" in done.stderr
    for record in records:
        plain = json.loads(outland("evaluate", str(record.parent), "test", "--json").stdout)
        expected = json.loads(record.read_text())["selection"]["ood_val+burn_in"]["test"]
        assert plain["scores"][0]["score"]["value"] == pytest.approx(expected, abs=1e-6)


def test_epochs_that_follow_from_the_table_are_counted(outland, tmp_path):
    words = ["--target", "p_np", "--set", "train.total_samples=9", "--set", "backbone.width=8", "--method", "erm"]
    done = outland("train", str(SAMPLES / "bbbp.csv"), *words, "--seeds", "2")
    assert done.returncode == 0, done.stderr
    assert "8 of 8 epochs of all runs" in done.stderr
