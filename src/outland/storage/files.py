"""Atomic files and folders: written to a scratch path, flushed, then renamed."""

import hashlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from outland.errors import CannotWrite


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, for hashing."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def checksum(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_SCRATCH = re.compile(r"\.(.+)\.[0-9a-f]{12}")


def scratch_path(path: Path) -> Path:
    """A new hidden name beside `path`; files made there have the umask's permissions, unlike those of `tempfile`."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: a reader, or a crash, sees the old one or the new one."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """As `write_text`."""
    scratch = scratch_path(path)
    try:
        with scratch.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except OSError as problem:
        raise CannotWrite(f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        scratch.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises nothing but `OSError` and `ValueError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def remove_scratch(folder: Path, *patterns: str) -> None:
    """Remove scratch files and folders of these names that a killed process left; no other may be writing them."""
    for scratch in folder.glob(".*") if folder.is_dir() else ():
        match = _SCRATCH.fullmatch(scratch.name)
        if match is None or not any(fnmatchcase(match[1], pattern) for pattern in patterns):
            continue
        if scratch.is_dir():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a scratch folder, renamed to `target` at the end of the block, or removed if the block raises."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch, old = scratch_path(target), scratch_path(target)
    scratch.mkdir()
    try:
        yield scratch
        for path in scratch.iterdir():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        if target.exists():
            target.rename(old)
        scratch.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def writable_folder(path: Path) -> Path:
    """The folder, made if need be; `CannotWrite` if nothing can be written to it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as problem:
        raise CannotWrite(f"cannot write to the folder {path}: {problem.strerror or problem}") from None
    return path


def cache_folder() -> Path:
    """The folder of prepared data and downloads: `OUTLAND_CACHE`, else the user's cache folder."""
    if named := os.environ.get("OUTLAND_CACHE"):
        return Path(named)
    import platformdirs  # only where no folder is named

    return Path(platformdirs.user_cache_dir("outland"))
