"""The checkpoints of a run; the newest intact one is resumed from."""

import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from torch import Tensor

from outland.graphs import PARTS
from outland.methods import Method
from outland.progress import say
from outland.settings import is_valid
from outland.storage.files import refuse_symlink
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from outland.training.record import CURVES, NUMBERS


class Checkpoints:
    """The snapshots of one run, of which the newest few are kept.

    More than one, so that a damaged newest one costs only the epochs since the one before.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self._write: Future[None] | None = None

    def _all(self) -> list[Path]:
        """The folders of snapshots, oldest first; no symbolic link is followed."""
        if self.folder.is_symlink():
            return []
        return sorted(path for path in self.folder.glob("epoch-*") if path.is_dir() and not path.is_symlink())

    def save(self, epoch: int, snapshot: Snapshot) -> None:
        """Write a snapshot taken after `epoch` epochs, and delete the oldest."""
        refuse_symlink(self.folder)
        write_snapshot(self.folder / f"epoch-{epoch:05d}", snapshot)
        for old in self._all()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def save_in_background(self, epoch: int, snapshot: Snapshot) -> None:
        """As `save`, from a copy on the host, while training goes on; what went wrong is raised by the next call."""
        self.wait()
        tensors = {name: tensor.detach().to("cpu", copy=True) for name, tensor in snapshot.tensors.items()}
        values = {name: list(value) if isinstance(value, list) else value for name, value in snapshot.values.items()}
        self._write = _writer().submit(self.save, epoch, Snapshot(tensors, values))

    def wait(self) -> None:
        """Wait until all is written."""
        write, self._write = self._write, None
        if write is not None:
            write.result()

    def latest(self) -> Snapshot | None:
        """The newest snapshot that is intact; None where there is none at all."""
        paths = self._all()
        for path in reversed(paths):
            try:
                return read_snapshot(path)
            except DamagedSnapshot as problem:
                say(f"{problem}; looking for the one before", "yellow")
        if paths:
            raise DamagedSnapshot(f"no checkpoint in {self.folder} is intact: start the run again with --force")
        return None

    def newest(self) -> Path | None:
        """The folder of the newest snapshot, intact or not."""
        return max(self._all(), default=None)

    def clear(self) -> None:
        """Delete all snapshots, once the run has its record."""
        refuse_symlink(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


class TrainingState(BaseModel):
    """The plain values of a checkpoint."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    curves: list[dict[str, Any]]
    seconds: list[float]
    device: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not is_valid(self.curves, CURVES) or [row.get("epoch") for row in self.curves] != [*range(len(self.curves))]:
            raise ValueError("its curves are not those of a training")
        if len(self.seconds) != len(self.curves):
            raise ValueError("it has other seconds than epochs")
        return self


def checked_state(snapshot: Snapshot, own: Snapshot, scored: Mapping[str, str], epochs: int) -> TrainingState:
    """The values of a checkpoint, if it is one of this training; a `ValueError` if it is not.

    Args:
        snapshot: that was read.
        own: a snapshot of the training as it is now, which has the same tensors.
        scored: the metric of each part that the curves must hold.
        epochs: of the whole training.
    """
    try:
        state = TrainingState(**snapshot.values)
    except ValidationError as problem:
        raise ValueError(f"its values are not of the right kind: {problem.errors()[0]['msg']}") from None
    if len(state.curves) > epochs:
        raise ValueError(f"it is of epoch {len(state.curves)}, and there are only {epochs}")
    for part, metric in scored.items():
        if not all(is_valid(row.get(part), NUMBERS) and metric in row[part] for row in state.curves):
            raise ValueError(f"its curves have no {metric} of the part '{part}'")
    if any({*row} & {*PARTS} != {*scored} for row in state.curves):
        raise ValueError("its curves are of other parts")
    shapes, expected = ({n: t.shape for n, t in s.tensors.items() if n[:7] != "random."} for s in (snapshot, own))
    if shapes != expected:
        raise ValueError("its tensors have other names or shapes")
    if not all(bool(tensor.isfinite().all()) for tensor in snapshot.tensors.values()):
        raise ValueError("a number of its tensors is not finite")
    return state


@cache
def _writer() -> ThreadPoolExecutor:
    """The thread that writes the checkpoints of all runs of this process, one after another."""
    return ThreadPoolExecutor(1, thread_name_prefix="checkpoints")


def random_state(device: torch.device, method: Method) -> dict[str, Tensor]:
    """The state of every generator a run may draw from."""
    state = {
        "torch": torch.get_rng_state(),
        "method": method.random.get_state(),
        "dropout": method.dropout_random.get_state(),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_random_state(state: dict[str, Tensor], device: torch.device, method: Method) -> None:
    """Set the generators to the states of `random_state`."""
    torch.set_rng_state(state["torch"])
    method.random.set_state(state["method"])
    method.dropout_random.set_state(state["dropout"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
