"""Folders that are whole or absent: written under a scratch name, flushed, then put in place in one step."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from outland.storage.files import scratch_path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a scratch folder, which replaces `target` at the end of the block, or is removed if the block raises.

    A process killed at any moment leaves the old folder or the new one under the name, or, where the file system
    cannot exchange two names, the old one beside it, from where `recover_folder` fetches it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    recover_folder(target)
    scratch = scratch_path(target)
    scratch.mkdir()
    try:
        yield scratch
        for path in scratch.iterdir():
            flush(path)
        flush(scratch)
        _replace(scratch, target)
        flush(target.parent)
    finally:
        _remove(scratch)


def recover_folder(target: Path) -> None:
    """Put back the folder that was at `target`, if a process was killed in between moving it away and replacing it."""
    if not target.name:  # the current folder is nobody's model
        return
    aside = _aside(target)
    if not aside.is_dir() or aside.is_symlink():
        return
    if os.path.lexists(target):
        shutil.rmtree(aside, ignore_errors=True)
    else:
        with suppress(OSError):
            aside.rename(target)


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, as far as the file system does that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some file systems cannot flush a folder
            raise
    finally:
        os.close(descriptor)


def _replace(new: Path, target: Path) -> None:
    """Rename `new` to `target`; a folder that is there is removed."""
    if not os.path.lexists(target):
        new.rename(target)
    elif _exchange(new, target):
        _remove(new)
    else:
        aside = _aside(target)
        target.rename(aside)
        new.rename(target)
        shutil.rmtree(aside, ignore_errors=True)


def _remove(path: Path) -> None:
    """Remove a folder, or a symbolic link or file that was in its place."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.replaced")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
