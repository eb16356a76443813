import pytest

from outland.studies.durations import calibrate, estimate_seconds, format_duration
from outland.training import RunSpec, run
from tests.studies.cases import SETS


def test_small_numbers_are_said_as_people_say_them(outland):
    out = outland("study", "ablation", "--seeds", "1", "--only", "ERM/motif-base", *SETS, "--dry-run")[1]
    assert "1 cell, 1 run: 1 waiting; about a second to train on this machine" in out
    assert [format_duration(seconds) for seconds in (0.0, 1.6, 59, 90, 3 * 3600, 3 * 86400)] == [
        *("a second", "2 s", "59 s", "1.5 min", "3.0 h", "3.0 d")
    ]


def test_estimates_grow_with_the_work():
    spec = RunSpec.make("motif", "erm", recipe=None)
    double = RunSpec.make("motif", "erm", changes={"train": {"epochs": 200}})
    assert estimate_seconds(double) == pytest.approx(2 * estimate_seconds(spec))
    assert estimate_seconds(RunSpec.make("motif", "aia")) > 2 * estimate_seconds(spec)
    assert (
        estimate_seconds(RunSpec.make("motif", "erm", changes={"data": {"limit": 100}})) < estimate_seconds(spec) / 20
    )
    assert estimate_seconds(spec, speed=3.0) == pytest.approx(3 * estimate_seconds(spec))
    assert 0.05 < calibrate() < 20


def test_an_estimate_is_of_the_right_size(motif, cache, tmp_path):
    spec = RunSpec.make("motif", "erm", changes={"train": {"epochs": 1}, "data": {"limit": 160}})
    record = run(spec, tmp_path, device="cpu", cache=cache)
    assert 0.2 < estimate_seconds(spec, calibrate()) / record.timing["seconds"] < 5
