"""Snapshots: a folder with named tensors in safetensors and other values in JSON, under checksums; never pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from outland.errors import CannotWrite, OutlandError
from outland.storage.files import atomic_folder, canonical_json, checksum, digest, read_json
from outland.storage.tensors import write_tensors

FORMAT = 1
_TENSORS, _STATE = SNAPSHOT_FILES = "tensors.safetensors", "state.json"


class DamagedSnapshot(OutlandError):
    """A snapshot that has changed since it was written, or cannot be read."""


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
        raise CannotWrite(f"cannot write {folder}: {problem.strerror or problem}") from None


def read_snapshot(folder: Path) -> Snapshot:
    """Read a snapshot; `DamagedSnapshot` if it has changed since it was written."""
    try:
        state = read_json(folder / _STATE)
        seal = state.pop("seal")
        if state["format"] > FORMAT:
            raise DamagedSnapshot(f"{folder} was written by a newer version of outland")
        if seal != digest(canonical_json(state)):
            raise DamagedSnapshot(f"{folder} has changed since it was written: {_STATE} is not what it was")
        for name, sha256 in {_TENSORS: state["sha256"], **state.get("texts", {})}.items():
            if Path(name).name != name or checksum(folder / name) != sha256:
                raise DamagedSnapshot(f"{folder} has changed since it was written: {name} is not what it was")
        return Snapshot(load_file(folder / _TENSORS), state["values"])
    except FileNotFoundError as problem:
        raise DamagedSnapshot(f"{folder} is not whole: {Path(problem.filename or '').name} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as problem:
        raise DamagedSnapshot(f"{folder} cannot be read: {problem}") from None
