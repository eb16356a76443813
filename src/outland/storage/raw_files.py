"""Raw files of datasets: in a folder the user names, else in the user's cache, downloaded there by pooch."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outland.errors import OutlandError
from outland.progress import track
from outland.storage.files import cache_folder, checksum, writable_folder

_RETRIES = 2
_BLOCK = 1 << 16  # bytes


@dataclass(frozen=True)
class RawFile:
    """A file that a dataset is made from."""

    path: str  # relative to the data folder
    sha256: str | None  # None where published archives differ in their packing, and the content is checked later
    url: str | None = None


class DataFolder:
    """The folder of raw files, to which missing ones are downloaded: `OUTLAND_DATA`, or one in the user's cache."""

    def __init__(self, folder: Path | str | None = None) -> None:
        named = folder or os.environ.get("OUTLAND_DATA")
        self.is_cache = not named
        self.folder = Path(named) if named else cache_folder() / "raw"
        self._failed: dict[RawFile, str] = {}  # files that could not be downloaded, and why

    def has(self, file: RawFile) -> bool:
        """Whether the file is already there."""
        return (self.folder / file.path).exists()

    def fetch(self, file: RawFile) -> Path:
        """Path of the file, downloaded if it is missing; its checksum is right.

        A file with another checksum is downloaded again in the user's cache, and refused in a folder the user named.
        A download that failed is not tried again.
        """
        path = self.folder / file.path
        if path.exists() and (file.sha256 is None or checksum(path) == file.sha256):
            return path
        if path.exists() and not self.is_cache:
            raise OutlandError(
                f"{path} is not the published file: its SHA-256 is {checksum(path)}, "
                f"not {file.sha256}; replace or remove it"
            )
        try:
            if file not in self._failed:
                self._download(file, path)
        except (OSError, ValueError, OutlandError) as problem:
            has_sentence = isinstance(problem, OutlandError)
            self._failed[file] = str(problem) if has_sentence else f"fetching {file.url} failed ({problem})"
        if file in self._failed:
            seal = f" (SHA-256 {file.sha256})" if file.sha256 else ""
            raise OutlandError(
                f"the file {file.path}{seal} is missing and {self._failed[file]}: put it at {path}, "
                "or name its folder with --data"
            )
        return path

    def _download(self, file: RawFile, path: Path) -> None:
        if file.url is None:
            raise OutlandError("it has no public home to fetch it from")
        writable_folder(path.parent)
        import pooch  # only where something has to be downloaded

        pooch.get_logger().setLevel("ERROR")
        registry, urls = {file.path: file.sha256}, {file.path: file.url}
        downloads = pooch.Pooch(self.folder.absolute(), "", registry, urls, retry_if_failed=_RETRIES)
        downloads.fetch(file.path, downloader=download)


def download(url: str, output_file: str, pooch: Any = None) -> None:
    """Write the content at `url` to `output_file`, under a progress bar: a downloader as pooch calls it."""
    import requests

    target = Path(output_file)
    target.unlink(missing_ok=True)  # pooch's scratch file: only its owner could read it
    with requests.get(url, stream=True, timeout=30, headers={"Accept-Encoding": "identity"}) as response:
        response.raise_for_status()
        size = int(response.headers.get("Content-Length") or 0)
        with target.open("xb") as stream:
            for block in track(response.iter_content(_BLOCK), f"Fetching {Path(url).name}", -(-size // _BLOCK) or None):
                stream.write(block)
    if size and target.stat().st_size != size:
        raise ValueError(f"only {target.stat().st_size:,} of {size:,} bytes came")
