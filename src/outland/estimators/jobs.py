"""Trainings of a fit as jobs: each leaves its result on disk, so that an interrupted fit goes on where it was."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveInt

from outland.devices import find_device, one_blas_thread, one_thread
from outland.estimators.contenders import VECTOR_MODELS, computing_clock, train_network, train_vector_model
from outland.graphs import Cache, Splits
from outland.spec import RunSpec, load_rows
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from outland.tables.folds import Fold, make_folds

_PROBE_ROWS, _PROBE_EPOCHS = 320, 2


@dataclass(frozen=True)
class Job:
    """One training of a contender.

    Args:
        contender: its name.
        fold: that is held out; None trains on all rows.
        epochs: that a network's learning rates are scheduled for; 0 is two epochs of a few rows, to time them.
        until: end after so many of them.
        seed: added to the fit's.
    """

    contender: str
    fold: int | None = None
    epochs: int = 0
    until: int | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """Of the folder that keeps its result."""
        rows = "all" if self.fold is None else f"fold{self.fold}"
        epochs = f"{self.epochs}epochs" + (f"-{self.until}" if self.until else "")
        return "-".join(
            [self.contender, rows, *([] if self.contender in VECTOR_MODELS else [epochs]), f"seed{self.seed}"]
        )


class _Values(BaseModel):
    """The plain values of a result; a job's name binds it to that job."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    job: str
    seconds: NonNegativeFloat
    epochs: PositiveInt = 1
    epoch_seconds: list[NonNegativeFloat] = []
    offset: list[float] = []


class Workshop:
    """Does the jobs of a fit; it travels to other processes, which read the table for themselves.

    Args:
        spec: which table, domain and seed.
        networks: specs by contender.
        folder: of results.
        folds: how many, as in `make_folds`.
        device: of networks.
        cache: of prepared tables.
    """

    def __init__(
        self,
        spec: RunSpec,
        networks: dict[str, RunSpec],
        folder: Path,
        folds: int,
        device: str = "cpu",
        cache: Path | None = None,
    ) -> None:
        self.spec, self.networks, self.folder = spec, networks, folder
        self.fold_count, self.device, self.cache = folds, device, cache

    def __reduce__(self) -> tuple[type["Workshop"], tuple[object, ...]]:
        return Workshop, (self.spec, self.networks, self.folder, self.fold_count, self.device, self.cache)

    @cached_property
    def rows(self) -> Splits:
        """All rows of the table."""
        return load_rows(self.spec, None if self.cache is None else Cache(self.cache))

    @cached_property
    def folds(self) -> list[Fold]:
        """The folds of the rows to learn from."""
        return make_folds(self.spec.domain, self.rows.graphs, self.rows["train"], self.spec.seed, self.fold_count)

    def __call__(self, job: Job) -> float:
        """Do a job, unless its result is there; returns the seconds of computing that it took."""
        result = self.result(job)
        if result is None:
            clock = computing_clock(find_device(self.device))
            started = clock()
            with one_thread(), one_blas_thread():
                result = self._train(job)
            result.values.update(job=job.name, seconds=clock() - started)
            write_snapshot(self.folder / job.name, result)
        return float(result.values["seconds"])

    def result(self, job: Job) -> Snapshot | None:
        """The result of a job that is done; None where there is none, or something else under its name."""
        path = self.folder / job.name
        try:
            result = None if path.is_symlink() else read_snapshot(path)
            if result is not None:
                self._check(result, job)
        except (DamagedSnapshot, ValueError):
            return None
        return result

    def _check(self, result: Snapshot, job: Job) -> None:
        """A `ValueError` where a result is not one of this job."""
        values, outputs = _Values(**result.values), result.tensors.get("outputs")
        if values.job != job.name or not (values.epoch_seconds or job.contender in VECTOR_MODELS):
            raise ValueError("it is the result of another job")
        if not all(bool(tensor.isfinite().all()) for tensor in result.tensors.values()):
            raise ValueError("a number is not finite")
        if job.fold is None:
            return
        rows, distances = len(self.folds[job.fold].held_out), result.tensors.get("distances")
        if outputs is None or not outputs.numel() or outputs.shape[1:] != (rows, self.rows.schema.task.outputs):
            raise ValueError("its outputs are of other rows")
        if distances is not None and distances.shape != (rows,):
            raise ValueError("its distances are of other rows")

    def _train(self, job: Job) -> Snapshot:
        splits = self._splits(job)
        if job.contender in VECTOR_MODELS:
            return train_vector_model(job.contender, splits, self.spec.seed + job.seed)
        return train_network(splits, self.network_spec(job), find_device(self.device), job.until)

    def network_spec(self, job: Job) -> RunSpec:
        """The spec of a network's job, its epochs spelled out."""
        spec = self.networks[job.contender]
        train = replace(spec.train, total_samples=None, epochs=job.epochs or _PROBE_EPOCHS, select="last_epoch")
        return replace(spec, train=train, seed=spec.seed + job.seed)

    def _splits(self, job: Job) -> Splits:
        """The rows that a job trains on, and those it predicts."""
        parts = {"train": self.rows["train"]}
        if job.fold is not None:
            fold = self.folds[job.fold]
            parts = {"train": fold.train, "val": fold.held_out}
        elif not job.epochs and job.contender not in VECTOR_MODELS:
            generator = torch.Generator().manual_seed(self.spec.seed)
            parts["train"] = parts["train"][torch.randperm(len(parts["train"]), generator=generator)[:_PROBE_ROWS]]
        return replace(self.rows, parts=parts)

    def seconds_per_row(self, probe: Job) -> float:
        """Of an epoch, as a probe measured it; its first one only warms up."""
        result = self.result(probe)
        assert result is not None
        return float(result.values["epoch_seconds"][-1]) / len(self._splits(probe)["train"])
