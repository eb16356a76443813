"""The folders of runs as bytes, to travel between machines that share no disk."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from outland.errors import OutlandError
from outland.files import writable_folder

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
    with tarfile.open(fileobj=io.BytesIO(parcel)) as archive:
        for member in archive:
            path = runs / member.name
            content = archive.extractfile(member)
            if content is None or not path.resolve().is_relative_to(runs.resolve()):
                raise OutlandError(f"a parcel of runs holds something that is no part of a run: {member.name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(f".{path.name}.arriving")
            aside.write_bytes(content.read())
            aside.replace(path)
