"""`outland train --seeds`."""

import json

from tests.cli.cases import TINY


def test_several_seeds_at_once(outland, tmp_path):
    done = outland("train", "motif", "--method", "erm", "--seeds", "2", *TINY)
    assert done.returncode == 0, done.stderr
    records = sorted(tmp_path.glob("runs/*/record.json"))
    assert [json.loads(record.read_text())["spec"]["seed"] for record in records] == [3, 4]
    tests = [100 * json.loads(record.read_text())["selection"]["ood_val+burn_in"]["test"] for record in records]
    assert f"{sum(tests) / 2:.2f} ± {abs(tests[0] - tests[1]) / 2:.2f}" in done.stdout
    assert "4 of 4 epochs of all runs" in done.stderr
