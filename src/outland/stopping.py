"""Requests to stop at the next good moment: SIGTERM, or a time that is up."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from outland.errors import OutlandError

PATIENCE = 20.0  # seconds between the request and the moment at which nothing more is waited for
_stop_at, _give_up_at = math.inf, math.inf
_listeners: list[Callable[[], None]] = []  # called when SIGTERM asks to stop


class Stopped(OutlandError):
    """Training was asked to stop, and stopped."""


def is_stopping() -> bool:
    """Whether runs should stop at the end of their epoch, with a checkpoint."""
    return time.monotonic() >= _stop_at


def is_overdue() -> bool:
    """Whether runs should stop at once."""
    return time.monotonic() >= _give_up_at


def seconds_left() -> float:
    """Seconds until runs are asked to stop; infinity where no time is set."""
    return _stop_at - time.monotonic()


@contextmanager
def stop_after(seconds: float | None) -> Iterator[None]:
    """Context that ends in so many seconds: runs are asked to stop a little before; None sets no time."""
    if seconds is None:
        yield
        return
    end = time.monotonic() + seconds
    with _until(min(_stop_at, end - min(PATIENCE, 0.1 * seconds)), min(_give_up_at, end)):
        yield


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Context in which SIGTERM asks runs to stop, where nobody else handles it; signals are for the main thread.

    After a SIGTERM it ends with `Stopped`, even if all runs have ended well: the process was to end, not just the runs.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    with _until(_stop_at, _give_up_at):  # what was set before holds again afterwards
        requests: list[int] = []

        def request(number: int, frame: FrameType | None) -> None:
            global _stop_at, _give_up_at
            now = time.monotonic()
            _stop_at, _give_up_at = min(_stop_at, now), min(_give_up_at, now + PATIENCE)
            requests.append(number)
            for listener in _listeners:
                listener()

        signal.signal(signal.SIGTERM, request)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if requests:
            raise Stopped("stopped, as SIGTERM asked")


@contextmanager
def sigterm_listener(listener: Callable[[], None]) -> Iterator[None]:
    """Context in which `listener` is called when SIGTERM asks to stop: worker processes have to be told."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def _until(stop_at: float, give_up_at: float) -> Iterator[None]:
    global _stop_at, _give_up_at
    before = _stop_at, _give_up_at
    _stop_at, _give_up_at = stop_at, give_up_at
    try:
        yield
    finally:
        _stop_at, _give_up_at = before
