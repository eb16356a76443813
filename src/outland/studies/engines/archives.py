"""Archives of run folders, in memory, to travel between machines that share no disk."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from outland.errors import OutlandError, cannot_write
from outland.storage.files import remove_scratch, writable_folder, write_bytes

_LAST = "record.json"  # it says that a run is done, and is written after all other files


def pack(runs: Path, slugs: Iterable[str]) -> bytes:
    """A tar archive of the files that are there of these runs."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        paths = [p for slug in slugs for p in (runs / slug).rglob("*") if p.is_file() and not p.is_symlink()]
        for path in sorted(paths, key=lambda path: (path.name == _LAST, path)):
            if path.name != ".lock":
                archive.add(path, path.relative_to(runs))
    return stream.getvalue()


def unpack(content: bytes, runs: Path) -> None:
    """Write runs into their folders, each file in one piece and records last. Nothing is written anywhere else.

    What an earlier call left that was killed in the middle of a file is removed.
    """
    writable_folder(runs)
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for folder in {(runs / member.name).parent for member in archive.getmembers()}:
                if folder.resolve().is_relative_to(runs.resolve()):
                    remove_scratch(folder, "*")
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is None:
                    raise ValueError(f"{member.name!r} is no file")
                _write(runs, member.name, file.read())
    except (tarfile.TarError, ValueError) as problem:
        raise OutlandError(f"an archive of runs holds something that is no part of a run: {problem}") from None
    except OSError as problem:
        raise cannot_write(f"to {runs}", problem) from None


def _write(runs: Path, name: str, content: bytes) -> None:
    """Write a file in one piece, in the folder of a run below `runs`."""
    path = runs / name
    if len(Path(name).parts) < 2 or ".." in Path(name).parts or not path.resolve().is_relative_to(runs.resolve()):
        raise ValueError(f"{name!r} is in no run's folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)
