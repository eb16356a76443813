"""Files that are whole or absent: written aside, flushed, then renamed into place."""

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
    """The one spelling of a JSON value that hashes are taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def checksum(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]{12}")


def aside(path: Path) -> Path:
    """A new name beside `path`; what is made there has the rights that the user's umask gives, unlike `tempfile`'s."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")


def write_text(path: Path, text: str) -> None:
    """Write a file in one piece: a reader, or a crash, sees the old one or the new one."""
    scratch = aside(path)
    try:
        with scratch.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except OSError as problem:
        scratch.unlink(missing_ok=True)
        raise CannotWrite(f"cannot write {path}: {problem.strerror or problem}") from None
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """The value in a JSON file; `OSError` or `ValueError`, and no other, where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def sweep(folder: Path, *names: str) -> None:
    """Remove what a killed process left half-written of these (see `aside`); nobody else may be writing them.

    In a name `*` stands for anything.
    """
    for scratch in folder.glob(".*") if folder.is_dir() else ():
        own = _ASIDE.fullmatch(scratch.name)
        if own is None or not any(fnmatchcase(own[1], name) for name in names):
            continue
        if scratch.is_dir():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a scratch folder that becomes `target` when the block ends well, and vanishes when it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = aside(target)
    scratch.mkdir()
    try:
        yield scratch
        for path in scratch.iterdir():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        if target.exists():
            old = aside(target)
            target.rename(old)
            scratch.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def writable_folder(path: Path) -> Path:
    """Make the folder and prove that it can be written to, or say why not."""
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
