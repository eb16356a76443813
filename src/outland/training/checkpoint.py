"""Snapshots of a run: tensors in safetensors, the rest in JSON, never pickle; the newest intact one counts."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from outland.errors import OutlandError
from outland.files import canonical_json, checksum, digest, new_folder
from outland.progress import console

FORMAT = 1
_TENSORS, _STATE = "tensors.safetensors", "state.json"


class DamagedCheckpoint(OutlandError):
    """A checkpoint that is not as it was written."""


@dataclass(frozen=True)
class Snapshot:
    """Named tensors and plain values that together are the state of something."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def group(self, name: str) -> dict[str, Tensor]:
        """The tensors under `name.`, with that prefix taken off."""
        return {key.removeprefix(f"{name}."): t for key, t in self.tensors.items() if key.startswith(f"{name}.")}


def write_snapshot(folder: Path, snapshot: Snapshot) -> None:
    """Write a snapshot as a folder, whole or not at all."""
    try:
        with new_folder(folder) as scratch:
            own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in snapshot.tensors.items()}
            save_file(own, scratch / _TENSORS)
            state = {"format": FORMAT, "sha256": checksum(scratch / _TENSORS), "values": snapshot.values}
            (scratch / _STATE).write_text(json.dumps({**state, "seal": digest(canonical_json(state))}))
    except OSError as problem:
        raise OutlandError(f"cannot write {folder}: {problem.strerror or problem}") from None


def read_snapshot(folder: Path) -> Snapshot:
    """Read a snapshot, refusing one whose bytes have changed."""
    try:
        state = json.loads((folder / _STATE).read_text())
        seal = state.pop("seal")
        if state["format"] > FORMAT:
            raise DamagedCheckpoint(f"{folder} was written by a newer version of outland")
        if seal != digest(canonical_json(state)) or state["sha256"] != checksum(folder / _TENSORS):
            raise DamagedCheckpoint(f"{folder} has changed since it was written")
        return Snapshot(load_file(folder / _TENSORS), state["values"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as problem:
        raise DamagedCheckpoint(f"{folder} cannot be read: {problem}") from None


class Checkpoints:
    """The snapshots of one run, of which the newest few are kept.

    Args:
        folder: where.
        keep: how many; more than one, so that a damaged newest one costs only the epochs since the one before.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def _all(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("epoch-*") if path.is_dir())

    def save(self, epoch: int, snapshot: Snapshot) -> None:
        """Add a snapshot taken after so many epochs and let the oldest go."""
        write_snapshot(self.folder / f"epoch-{epoch:05d}", snapshot)
        for old in self._all()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def latest(self) -> Snapshot | None:
        """The newest snapshot that is intact; None where there is none at all."""
        found = self._all()
        for path in reversed(found):
            try:
                return read_snapshot(path)
            except DamagedCheckpoint as problem:
                console().print(f"[yellow]{problem}; looking for the one before[/]")
        if found:
            raise DamagedCheckpoint(f"no checkpoint in {self.folder} is intact: start the run again with --force")
        return None

    def newest(self) -> Path | None:
        """Where the newest snapshot lies."""
        found = self._all()
        return found[-1] if found else None

    def clear(self) -> None:
        """Remove them all, once the run has its record."""
        shutil.rmtree(self.folder, ignore_errors=True)


def random_state(device: torch.device, method_random: torch.Generator) -> dict[str, Tensor]:
    """The state of every random stream a run draws from."""
    state = {"torch": torch.get_rng_state(), "method": method_random.get_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_random_state(state: dict[str, Tensor], device: torch.device, method_random: torch.Generator) -> None:
    """The inverse of `random_state`."""
    torch.set_rng_state(state["torch"])
    method_random.set_state(state["method"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
