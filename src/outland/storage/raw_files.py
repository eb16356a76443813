"""Where raw files come from: a folder the user names, else the user's cache, filled from each file's public home."""

import http.client
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from outland.errors import OutlandError
from outland.progress import track
from outland.storage.files import aside, cache_folder, checksum, writable_folder

_ATTEMPTS = 3
_BLOCK = 1 << 16


@dataclass(frozen=True)
class RawFile:
    """A file that a dataset is made from.

    Args:
        path: its place below the data folder.
        sha256: of its content; None where published copies differ in their packing, and the content is checked later.
        url: its public home.
    """

    path: str
    sha256: str | None
    url: str | None = None


class DataFolder:
    """The folder raw files are looked for in.

    Args:
        folder: where; by default `OUTLAND_DATA`, else a folder of the user's cache, which downloads go to.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        named = folder or os.environ.get("OUTLAND_DATA")
        self.own = not named
        self.folder = Path(named) if named else cache_folder() / "raw"

    def find(self, file: RawFile) -> Path:
        """The file on disk, downloaded if need be; its checksum is right."""
        path = self.folder / file.path
        if not path.exists():
            self._download(file, path)
        elif file.sha256 is not None and checksum(path) != file.sha256:
            if not self.own:
                raise OutlandError(
                    f"{path} is not the published file: its SHA-256 is {checksum(path)}, "
                    f"not {file.sha256}; replace or remove it"
                )
            path.unlink()  # a broken download of ours: do it again
            self._download(file, path)
        return path

    def has(self, file: RawFile) -> bool:
        """Whether the file is already there."""
        return (self.folder / file.path).exists()

    def _download(self, file: RawFile, path: Path) -> None:
        if file.url is None:
            raise OutlandError(self._missing(file, path, "it has no public home to fetch it from"))
        try:
            writable_folder(path.parent)
        except OutlandError as refusal:
            raise OutlandError(self._missing(file, path, str(refusal))) from None
        problem: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(2**attempt)
            try:
                self._fetch(file, path)
                return
            except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
                problem = error
        raise OutlandError(self._missing(file, path, f"fetching {file.url} failed ({problem})"))

    def _fetch(self, file: RawFile, path: Path) -> None:
        assert file.url is not None
        scratch = aside(path)
        try:
            with scratch.open("xb") as target, urllib.request.urlopen(file.url, timeout=30) as stream:
                size = int(stream.headers.get("Content-Length") or 0)
                _copy(stream, target, path.name, size)
            if size and scratch.stat().st_size != size:
                raise OSError(f"only {scratch.stat().st_size:,} of {size:,} bytes came")
            if file.sha256 is not None and checksum(scratch) != file.sha256:
                raise OSError(f"what came has SHA-256 {checksum(scratch)}")
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)

    def _missing(self, file: RawFile, path: Path, why: str) -> str:
        seal = f" (SHA-256 {file.sha256})" if file.sha256 else ""
        return f"the file {file.path}{seal} is missing and {why}: put it at {path}, or name its folder with --data"


def _copy(stream: IO[bytes], target: IO[bytes], name: str, size: int) -> None:
    blocks = iter(lambda: stream.read(_BLOCK), b"")
    for block in track(blocks, f"Fetching {name}", -(-size // _BLOCK) or None):
        target.write(block)
