"""Locks that processes hold on a path; on file systems without locks, by exclusive creation of a file."""

import errno
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from outland.errors import Busy, cannot_write
from outland.progress import say

_WITHOUT_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.ENOSYS}
_OLD = 7 * 24 * 3600.0  # seconds after which the marker of another machine's process is that of one that is gone
_noted = set[Path]()  # folders without locks that a note was given on


def acquire(path: Path, timeout: float = -1) -> BaseFileLock:
    """A lock on `path` that is held; `Timeout` if another process holds it for `timeout` seconds, -1 waits for ever.

    Where the file system has no locks, it is a file that names its owner: one whose owner has ended, on this machine,
    or that is older than a week, is broken.
    """
    lock: BaseFileLock = FileLock(path)
    try:
        with warnings.catch_warnings():  # filelock falls back on its own for one of the reasons
            warnings.simplefilter("ignore")
            lock.acquire(timeout=timeout)
        return lock
    except NotImplementedError:
        pass
    except OSError as problem:
        if isinstance(problem, Timeout):
            raise
        if problem.errno not in _WITHOUT_LOCKS:
            raise cannot_write(f"the lock {path}", problem) from None
    if path.parent not in _noted:
        _noted.add(path.parent)
        say(f"{path.parent} is on a file system without locks: files that name their owner stand in for them", "yellow")
    marker = path.with_name(f"{path.name}.owner")
    try:
        _break_old(marker)
        soft = SoftFileLock(marker)
        soft.acquire(timeout=timeout)
    except Timeout:
        raise
    except OSError as problem:
        raise cannot_write(f"the lock {marker}", problem) from None
    return soft


@contextmanager
def locked(path: Path, timeout: float = -1, busy: str = "") -> Iterator[None]:
    """Hold a lock on `path`; `Busy`, with the sentence `busy`, where another process holds it for too long."""
    try:
        lock = acquire(path, timeout)
    except Timeout:
        raise Busy(busy or f"another process is working on {path}") from None
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock."""
    try:
        acquire(path, 0).release()
    except Timeout:
        return True
    return False


def _break_old(marker: Path) -> None:
    """Remove the marker of a process of another machine that was written long ago, by the clock of the file system."""
    try:
        age = time.time() - marker.lstat().st_mtime
    except FileNotFoundError:
        return
    if age > _OLD:
        marker.unlink(missing_ok=True)
