"""Snapshots: a folder with named tensors in safetensors and other values in JSON, under checksums; never pickle."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from torch import Tensor

from outland.errors import OutlandError, cannot_write
from outland.storage.files import MAX_JSON, canonical_json, checksum, digest, read_bounded, read_json
from outland.storage.folders import atomic_folder
from outland.storage.tensors import Changed, read_tensors, write_tensors

FORMAT = 1
MAX_BYTES = 1 << 34  # of the tensors of a model or a checkpoint
_TENSORS, _STATE = SNAPSHOT_FILES = "tensors.safetensors", "state.json"


class DamagedSnapshot(OutlandError):
    """A snapshot that has changed since it was written, or cannot be read."""


class _State(BaseModel):
    """The JSON of a snapshot, but for its seal."""

    model_config = ConfigDict(strict=True, extra="forbid")
    format: int
    sha256: str
    texts: dict[str, str] = {}
    values: dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """Named tensors and plain values."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def group(self, name: str) -> dict[str, Tensor]:
        """The tensors under `name.`, with that prefix taken off."""
        return {key.removeprefix(f"{name}."): t for key, t in self.tensors.items() if key.startswith(f"{name}.")}


def write_snapshot(folder: Path, snapshot: Snapshot, texts: Mapping[str, str] | None = None) -> None:
    """Write a snapshot as a folder, atomically, with further files `texts` (by name) under the same seal."""
    try:
        with atomic_folder(folder) as scratch:
            write_tensors(scratch / _TENSORS, snapshot.tensors)
            for name, text in (texts or {}).items():
                (scratch / name).write_text(text, encoding="utf-8")
            state = {
                "format": FORMAT,
                "sha256": checksum(scratch / _TENSORS),
                "texts": {name: digest(text) for name, text in (texts or {}).items()},
                "values": snapshot.values,
            }
            (scratch / _STATE).write_text(json.dumps({**state, "seal": digest(canonical_json(state))}))
    except OSError as problem:
        raise cannot_write(folder, problem) from None


def read_snapshot(folder: Path, most: int = MAX_BYTES) -> Snapshot:
    """Read a snapshot of tensors of at most `most` bytes; `DamagedSnapshot` if it has changed since it was written.

    It may be a stranger's: only regular files of the folder itself are read, within limits, and what is checked is what
    is used.
    """
    try:
        plain = read_json(folder / _STATE)
        seal = plain.pop("seal")
        if isinstance(plain.get("format"), int) and plain["format"] > FORMAT:
            raise DamagedSnapshot(f"{folder} was written by a newer version of outland")
        if seal != digest(canonical_json(plain)):
            raise DamagedSnapshot(f"{folder} has changed since it was written: {_STATE} is not what it was")
        state = _State(**plain)
        for name, sha256 in state.texts.items():
            if Path(name).name != name or sha256 != hashlib.sha256(read_bounded(folder / name, MAX_JSON)).hexdigest():
                raise DamagedSnapshot(f"{folder} has changed since it was written: {name:.80} is not what it was")
        tensors = read_tensors(folder / _TENSORS, state.sha256, most)
        return Snapshot(tensors, state.values)
    except DamagedSnapshot:
        raise
    except Changed as problem:
        raise DamagedSnapshot(f"{folder} has changed since it was written: {problem}") from None
    except FileNotFoundError as problem:
        raise DamagedSnapshot(f"{folder} is not whole: {Path(problem.filename or '').name} is missing") from None
    except ValidationError as problem:
        where = ".".join(map(str, problem.errors()[0]["loc"]))
        raise DamagedSnapshot(f"{folder} cannot be read: {where!r:.80} is not of the right kind") from None
    except OSError as problem:
        name = Path(problem.filename or "").name
        raise DamagedSnapshot(f"{folder} cannot be read: {name}: {problem.strerror or problem}") from None
    except (
        OutlandError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        MemoryError,
        OverflowError,
        SafetensorError,
    ) as problem:
        raise DamagedSnapshot(f"{folder} cannot be read: {str(problem) or type(problem).__name__}") from None
