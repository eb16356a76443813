"""Files that may be a stranger's, opened safely; and files written to a scratch path, flushed, then renamed."""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import uuid
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any

from outland.errors import CannotWrite, NotPermitted, OutlandError, cannot_write
from outland.progress import say

MAX_JSON = 32 << 20  # bytes: parsed, they take up to thirty times as many


def open_regular(path: Path, follow: bool = False) -> BufferedReader:
    """Open a regular file for reading; an `OSError` for a pipe, a device or a folder, which never blocks.

    A symbolic link is followed only with `follow`: where the user named the file, and not the folder that it is in.
    """
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_bounded(path: Path, most: int, follow: bool = False) -> bytes:
    """The content of a regular file of at most `most` bytes; an `OSError` for any other (see `open_regular`)."""
    with open_regular(path, follow) as stream:
        content = stream.read(most + 1) if os.fstat(stream.fileno()).st_size <= most else None
    if content is None or len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return content


def refuse_symlink(*paths: Path) -> None:
    """Refuse parts of a run's or a model's folder that are symbolic links: none is followed there."""
    for path in paths:
        if path.is_symlink():
            raise OutlandError(f"{path} is a symbolic link, which is not followed: remove it, or choose another folder")


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, for hashing."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def checksum(path: Path, follow: bool = True) -> str:
    """SHA-256 of a regular file's bytes, in hex."""
    with open_regular(path, follow) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_SCRATCH = re.compile(r"\.(.+)\.[0-9a-f]{12}")


def scratch_path(path: Path) -> Path:
    """A new hidden name beside `path`; files made there have the umask's permissions, unlike those of `tempfile`."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: a reader, or a crash, sees the old one or the new one.

    Bytes of a name or a cell that are not UTF-8, which were read as surrogates, are spelled out.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """As `write_text`; a device, a pipe or a folder is not replaced."""
    scratch = scratch_path(path)
    try:
        if os.path.lexists(path) and not (path.is_symlink() or path.is_file()):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with scratch.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except OSError as problem:
        raise cannot_write(path, problem) from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def read_json(path: Path, most: int = MAX_JSON) -> Any:
    """The value in a JSON file of a run, a model or a study; raises nothing but `OSError` and `ValueError`."""
    try:
        return json.loads(read_bounded(path, most).decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def remove_scratch(folder: Path, *patterns: str) -> None:
    """Remove scratch files and folders of these names that a killed process left; no other may be writing them."""
    for scratch in folder.glob(".*") if folder.is_dir() else ():
        match = _SCRATCH.fullmatch(scratch.name)
        if match is None or not any(fnmatchcase(match[1], pattern) for pattern in patterns):
            continue
        if scratch.is_dir() and not scratch.is_symlink():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


def writable_folder(path: Path) -> Path:
    """The folder, made if need be; `CannotWrite` if nothing can be written to it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as problem:
        raise cannot_write(f"to the folder {path}", problem) from None
    return path


def cache_folders() -> list[Path]:
    """The folders of prepared data, in the order they are read: those of `OUTLAND_CACHE`, else the user's own.

    `OUTLAND_CACHE` may be a list, as `PATH` is.
    """
    named = [Path(part) for part in os.environ.get("OUTLAND_CACHE", "").split(os.pathsep) if part]
    return named or [own_cache_folder()]


def own_cache_folder() -> Path:
    """The user's own cache folder."""
    import platformdirs  # only where no folder is named

    return Path(platformdirs.user_cache_dir("outland"))


@cache
def writable_cache(folders: tuple[Path, ...]) -> Path:
    """The first of several folders that the user may write to; with a note, his own where there is none."""
    if len(folders) == 1:  # whether it can be written to turns out where something is written
        return folders[0]
    for folder in folders:
        try:
            return writable_folder(folder)
        except NotPermitted:
            continue
        except CannotWrite:  # a full disk, say: it is this folder's to report
            return folder
    say(f"{folders[0]} is read-only here: what has to be prepared goes to {own_cache_folder()}", "yellow")
    return own_cache_folder()


def cache_folder() -> Path:
    """The cache folder that is written to."""
    return writable_cache(tuple(cache_folders()))
