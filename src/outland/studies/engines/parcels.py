"""The folders of runs as bytes, to travel between machines that share no disk."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from outland.errors import CannotWrite, OutlandError
from outland.storage.files import writable_folder

Parcel = bytes
_LAST = ("record.json",)  # what says that a run is done is put down when all else is there


def pack(runs: Path, slugs: Iterable[str]) -> Parcel:
    """What there is of these runs."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        found = [path for slug in slugs for path in (runs / slug).rglob("*") if path.is_file()]
        for path in sorted(found, key=lambda path: (path.name in _LAST, path)):
            if path.name != ".lock":
                archive.add(path, path.relative_to(runs))
    return stream.getvalue()


def unpack(parcel: Parcel, runs: Path) -> None:
    """Put runs into their folders, each file in one piece and records last. Nothing is written anywhere else."""
    writable_folder(runs)
    try:
        with tarfile.open(fileobj=io.BytesIO(parcel), mode="r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise ValueError(f"{member.name!r} is no file")
                _put(runs, member.name, content.read())
    except (tarfile.TarError, ValueError) as problem:
        raise OutlandError(f"a parcel of runs holds something that is no part of a run: {problem}") from None
    except OSError as problem:
        raise CannotWrite(f"cannot write to {runs}: {problem.strerror or problem}") from None


def _put(runs: Path, name: str, content: bytes) -> None:
    """One file in one piece, below `runs` and in the folder of a run."""
    path = runs / name
    if len(Path(name).parts) < 2 or ".." in Path(name).parts or not path.resolve().is_relative_to(runs.resolve()):
        raise ValueError(f"{name!r} is in no run's folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.arriving")
    aside.write_bytes(content)
    aside.replace(path)
