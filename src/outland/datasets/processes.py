"""Work shared out to other processes, in order and never too far ahead."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from types import ModuleType
from typing import TypeVar

from outland.errors import OutlandError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def spread(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results of `work` on each item, in order; memory does not grow with the number of items.

    The processes are fresh ones: a fork would inherit the locks of torch's threads and of the cache.
    """
    if workers < 2:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _one_thread) as pool:
        try:
            for item in items:
                with _hidden_script():
                    pending.append(pool.submit(work, item))
                if len(pending) >= 4 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise OutlandError("a process that was reading data died, perhaps for want of memory; try again") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    """Use one thread, and live no longer than the process that wants the results."""
    import torch

    torch.set_num_threads(1)
    Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Keep processes started meanwhile from running the caller's script again: one without a guard would hang."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
