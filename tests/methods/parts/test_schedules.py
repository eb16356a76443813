import pytest

from outland.methods.parts.schedules import power, ramp, staircase, warm_up


def test_golden_ramp():
    assert [ramp(t) for t in (0, 0.1, 0.5, 1)] == pytest.approx([0, 0.4621171573, 0.9866142982, 0.9999092043], abs=1e-9)


def test_golden_power():
    actual = [power(0.01, epoch, 1.6) for epoch in (0, 1, 10, 100)]
    assert actual == pytest.approx([0, 0.01, 0.3981071706, 15.8489319246], abs=1e-9)
    assert power(0.5, 0, 0) == 0.5


def test_staircase_falls_to_its_end():
    actual = [staircase(epoch, 10, 0.9, 0.1, 0.7) for epoch in (0, 9, 10, 20, 30)]
    assert actual == pytest.approx([0.9, 0.9, 0.8, 0.7, 0.7])


def test_warm_up_holds_at_one():
    assert [warm_up(100, step, 5) for step in (0, 4, 5)] == [1, 1, 100]
    assert warm_up(0.1, 0, 5) == 0.1


def test_the_bottleneck_falls_by_steps():
    actual = [staircase(epoch, 10, 0.9, 0.1, 0.7) for epoch in (0, 1, 9, 10, 19, 20, 30, 99)]
    assert actual == pytest.approx([0.9, 0.9, 0.9, 0.8, 0.8, 0.7, 0.7, 0.7])
