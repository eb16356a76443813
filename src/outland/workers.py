"""Work shared out to other processes, in order and never too far ahead.

Written by hand because concurrent.futures sends the results of all its processes through one pipe, whose writing end
it keeps open itself: when a process is killed in the middle of a result, the reader waits for the rest for ever. Here
each process has a pipe of its own, which ends when the process does.
"""

import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import ModuleType
from typing import Any, TypeVar

from outland.errors import OutlandError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def spread(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results of `work` on each item, in order; memory does not grow with the number of items."""
    if workers < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(workers) as threads, _processes(work, workers) as idle:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(threads.submit(_ask, idle, item))
            if len(pending) >= 4 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextmanager
def _processes(work: Callable[[Any], Any], workers: int) -> Iterator[SimpleQueue[Connection]]:
    """The pipes of so many processes that do the work. On leaving they end, whatever they are at.

    The processes are fresh ones: a fork would inherit the locks of torch's threads and of the cache.
    """
    context = get_context("spawn")
    idle: SimpleQueue[Connection] = SimpleQueue()
    processes = []
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(work, theirs), daemon=True)
            with _hidden_script():
                process.start()
            theirs.close()
            processes.append(process)
            idle.put(ours)
        yield idle
    finally:
        for process in processes:
            process.kill()
            process.join()


def _ask(idle: SimpleQueue[Connection], item: Any) -> Any:
    """Send one item to a process that is idle, and wait for what it answers."""
    pipe = idle.get()
    try:
        pipe.send(item)
        result, error = pipe.recv()
    except (EOFError, OSError):
        raise OutlandError("a process died at its work, perhaps for want of memory; try again") from None
    finally:
        idle.put(pipe)
    if error is not None:
        raise error
    return result


def _serve(work: Callable[[Any], Any], pipe: Connection) -> None:
    """Answer items until the process that asks has gone."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides what an interruption means
    while True:
        try:
            item = pipe.recv()
        except (EOFError, OSError):
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = (work(item), None)
        except Exception as error:
            answer = (None, _portable(error))
        try:
            pipe.send(answer)
        except OSError:
            return


def _portable(error: Exception) -> Exception:
    """The error if it survives the way between processes, else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return OutlandError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Keep processes started meanwhile from running the caller's script again: one without a guard would hang."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
