"""Ordered map over worker processes, with bounded look-ahead."""

# By hand: concurrent.futures and joblib's loky read all results from one pipe, and a worker killed half-way through
# writing to it blocks the reader for ever; here each worker has its own pipe, which ends when the worker does.

import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from types import ModuleType
from typing import Any, TypeVar

from outland.errors import OutlandError
from outland.stopping import Stopped, sigterm_listener, stop_on_sigterm

Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_WORKERS = 1024
AHEAD = 4  # items read ahead, by each worker
_SIGNALS = [signal.SIGINT, signal.SIGTERM]  # a process handles them once it is ready


def available_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def map_ordered(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order; at most `AHEAD * workers` items are read ahead."""
    if workers < 2:
        yield from map(function, items)
        return
    with worker_pool(function, workers) as submit:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(submit(item))
            if len(pending) >= AHEAD * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextmanager
def worker_pool(function: Callable[[Item], Result], workers: int) -> Iterator[Callable[[Item], "Future[Result]"]]:
    """Processes that compute `function`: yields what submits an item and returns its future.

    With one worker items are computed here, when they are submitted. On exit the processes are killed.
    """
    if workers > MAX_WORKERS:
        raise OutlandError(f"at most {MAX_WORKERS:,} processes can work at a time, not {workers:,}")
    if workers < 2:
        yield partial(_compute, function)
        return
    with ThreadPoolExecutor(workers) as threads, _processes(function, workers) as idle:
        yield lambda item: threads.submit(_request, idle, item)


def _compute(function: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """A future that is done."""
    future: Future[Result] = Future()
    try:
        future.set_result(function(item))
    except Exception as error:
        future.set_exception(error)
    return future


@contextmanager
def _processes(function: Callable[[Any], Any], workers: int) -> Iterator[SimpleQueue[Connection]]:
    """Start `workers` processes and yield a queue of their pipes; on exit the processes are killed.

    They are spawned: a fork would inherit the locks of torch's threads and of the cache.
    """
    context, processes = get_context("spawn"), list[SpawnProcess]()
    idle: SimpleQueue[Connection] = SimpleQueue()

    def terminate() -> None:
        for process in processes:
            process.terminate()

    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(function, theirs), daemon=True)
            with _hidden_script(), _delayed_signals():
                process.start()
            theirs.close()
            processes.append(process)
            idle.put(ours)
        with sigterm_listener(terminate):
            yield idle
    finally:
        for process in processes:
            process.kill()
            process.join()


def _request(idle: SimpleQueue[Connection], item: Any) -> Any:
    """The result of one item, computed by an idle process."""
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


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """Worker loop: receive items and send `(result, error)` until the parent has gone."""
    os.environ["OMP_NUM_THREADS"] = "1"  # of PyTorch, if it is imported later
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    with suppress(EOFError, OSError, Stopped), stop_on_sigterm():
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        while True:
            pipe.send(_call(function, pipe.recv()))


def _call(function: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None]:
    """The result and no error; or no result and the error, as an `OutlandError` where it cannot be pickled."""
    try:
        return function(item), None
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return None, OutlandError(f"{type(error).__name__}: {error}")
        return None, error


@contextmanager
def _delayed_signals() -> Iterator[None]:
    """Keep Ctrl-C and SIGTERM from processes that are started here while they import: they inherit the mask."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would be started now, and unblock signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _hidden_script() -> Iterator[None]:
    """Keep spawned processes from importing the caller's `__main__`: a script without a guard would run again."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
