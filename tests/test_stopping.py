"""Requests to stop: times that are up, and SIGTERM."""

import math
import signal
import threading

import pytest

from outland import stopping
from outland.stopping import Stopped, is_overdue, is_stopping, seconds_left, stop_after, stop_on_sigterm


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand: `clock(12)` is twelve seconds after the start."""
    now = [1000.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])

    def move(seconds):
        now[0] = 1000.0 + seconds

    return move


@pytest.mark.parametrize(("seconds", "asked"), [(50.0, 45.0), (200.0, 180.0), (1000.0, 980.0)])
def test_runs_are_asked_a_tenth_before_the_end_and_twenty_seconds_at_most(clock, seconds, asked):
    with stop_after(seconds):
        assert seconds_left() == pytest.approx(asked)
        clock(asked - 0.1)
        assert (is_stopping(), is_overdue()) == (False, False)
        clock(asked + 0.1)
        assert (is_stopping(), is_overdue()) == (True, False)
        clock(seconds - 0.1)
        assert not is_overdue()
        clock(seconds + 0.1)
        assert (is_stopping(), is_overdue()) == (True, True)
    assert (is_stopping(), is_overdue(), seconds_left()) == (False, False, math.inf)


def test_contexts_within_each_other_keep_the_earlier_time_and_restore_the_outer(clock):
    with stop_after(100):
        with stop_after(10):
            assert seconds_left() == pytest.approx(9)
        assert seconds_left() == pytest.approx(90)
        with stop_after(1000):  # no more than is left outside
            assert seconds_left() == pytest.approx(90)
        with stop_after(None):
            assert seconds_left() == pytest.approx(90)
        with pytest.raises(KeyError), stop_after(10):
            raise KeyError
        assert seconds_left() == pytest.approx(90)
    assert seconds_left() == math.inf


def test_a_time_that_is_past_stops_at_once(clock):
    with stop_after(-5.0):
        assert (is_stopping(), is_overdue()) == (True, True)


def test_sigterm_asks_runs_to_stop_and_ends_what_called_them(clock):
    before = signal.getsignal(signal.SIGTERM)

    @stop_on_sigterm()
    def work():
        assert not is_stopping()
        signal.raise_signal(signal.SIGTERM)
        assert (is_stopping(), is_overdue()) == (True, False)
        clock(19.9)
        assert not is_overdue()
        clock(20.1)
        assert is_overdue()

    with pytest.raises(Stopped, match="SIGTERM"):
        work()
    assert (is_stopping(), signal.getsignal(signal.SIGTERM)) == (False, before)
    with stop_on_sigterm():
        assert not is_stopping()


def test_sigterm_does_not_give_more_time(clock):
    @stop_on_sigterm()
    def work():
        clock(95)
        signal.raise_signal(signal.SIGTERM)
        assert seconds_left() == pytest.approx(-5)
        clock(100.1)
        assert is_overdue()

    with stop_after(100), pytest.raises(Stopped):
        work()


def test_what_went_wrong_after_sigterm_is_told_first():
    @stop_on_sigterm()
    def work():
        signal.raise_signal(signal.SIGTERM)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()


def test_a_handler_of_somebody_else_stays_and_so_does_one_of_another_thread():
    heard = []
    kept = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with stop_on_sigterm():
            signal.raise_signal(signal.SIGTERM)
            assert not is_stopping()
    finally:
        signal.signal(signal.SIGTERM, kept)
    assert heard == [signal.SIGTERM]

    def inside():
        with stop_on_sigterm():
            heard.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert heard[1] == kept
