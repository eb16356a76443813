import re

import pytest

from outland.demo import _SETTINGS, demo
from outland.spec import RunSpec

SMALL = ["data.limit=30", "data.seed=7", "backbone.width=8", "train.epochs=2"]


def test_it_trains_three_methods_and_says_which_did_best(cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("outland.demo._SETTINGS", SMALL)
    picture = demo(tmp_path, 0, cache)
    assert picture.stat().st_size > 20_000
    text = " ".join(capsys.readouterr().out.split())
    rows = {
        label: re.search(rf"│ {label} │ ([\d.]+) │ ([\d.]+) │ ([\d.]+) │", text) for label in ("ERM", "AIA", "Evidence")
    }
    test = {label: float(row[3]) for label, row in rows.items()}
    best, score = re.search(r"largest graphs (\w+) did best this time: ([\d.]+),", text).groups()
    assert float(score) == pytest.approx(test[best], abs=0.06)  # to one digit, and to two
    assert test[best] == max(test.values())
    written = picture.stat().st_mtime_ns
    demo(tmp_path, 0, cache)  # again from the start, in the same folder
    assert picture.stat().st_mtime_ns > written


def test_its_graphs_are_not_those_of_the_published_test_part():
    spec = RunSpec.from_words("motif", "erm", _SETTINGS, domain="size")
    assert spec.data.seed not in (None, RunSpec.make("motif", "erm", "size").data.seed)
