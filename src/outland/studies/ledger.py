"""What has become of the runs of a study: read from the folders that the runs themselves write."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from outland.errors import Busy, OutlandError
from outland.settings import shaped
from outland.storage.files import read_json, write_text
from outland.storage.snapshots import DamagedSnapshot
from outland.studies.base import Cell, Measured, Study
from outland.training import RunRecord, RunSpec
from outland.training.run_folder import RunFolder

State = Literal["done", "failed", "begun", "waiting"]


class Ledger:
    """The runs of a study under one folder; runs that several studies share are there once.

    Args:
        study: whose.
        out: folder of studies; runs are in `runs` below it.
    """

    def __init__(self, study: Study, out: Path) -> None:
        self.study, self.runs = study, out / "runs"

    def folder(self, spec: RunSpec) -> RunFolder:
        """Where a run lies."""
        return RunFolder(self.runs, spec)

    def state(self, cell: Cell, spec: RunSpec) -> State:
        """Where a run stands."""
        folder = self.folder(spec)
        trained = not cell.row.trained or folder.record_path.exists()
        if trained and (self.study.measure is None or self._measured(spec).exists()):
            return "done"
        if self.failure(cell, spec) is not None:
            return "failed"
        if not cell.row.trained:  # what has become of the training is another study's
            return "waiting"
        return "begun" if folder.record_path.exists() or folder.checkpoints.newest() else "waiting"

    def share(self, cell: Cell, spec: RunSpec) -> float:
        """How much of a run is over, from 0 to 1: failed or done it is all over, else its newest checkpoint tells."""
        if self.state(cell, spec) in ("done", "failed"):
            return 1.0
        newest = self.folder(spec).checkpoints.newest()
        return 0.99 * int(newest.name.partition("-")[2]) / spec.train.epochs if newest else 0.0

    def record(self, spec: RunSpec) -> RunRecord | None:
        """The record of a finished run; None where there is none."""
        path = self.folder(spec).record_path
        return RunRecord.read(path) if path.exists() else None

    def measured(self, spec: RunSpec) -> Measured | None:
        """What this study measured on top of a run."""
        path = self._measured(spec)
        if not path.exists():
            return None
        try:
            measured = Measured(**read_json(path))
            if not shaped(measured.values, dict[str, float]) or not shaped(measured.pictures, list[dict[str, Any]]):
                raise ValueError("its values are no numbers")
            return measured
        except (ValueError, TypeError) as problem:
            raise OutlandError(f"{path} is not a measurement ({problem}): remove it and run the study again") from None

    def keep(self, spec: RunSpec, measured: Measured) -> None:
        """Write down what was measured, in one piece."""
        path = self._measured(spec)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(measured), allow_nan=False) + "\n")
        if not (path.parent / "spec.json").exists():  # nothing was trained for it
            write_text(path.parent / "spec.json", json.dumps(spec.to_json(), indent=1) + "\n")

    def failure(self, cell: Cell, spec: RunSpec) -> str | None:
        """Why a run, or what this study measures on top of it, failed; None where it did not."""
        for path in self._failures(cell, spec):
            try:
                return str(read_json(path)["error"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None

    def fail(self, spec: RunSpec, problem: Exception, measuring: bool = False) -> str | None:
        """Write down why a run or its measure failed, unless another process is at work on it; what was written."""
        if isinstance(problem, Busy):
            return None
        path = self._failure(spec, measuring)
        path.parent.mkdir(parents=True, exist_ok=True)
        error = str(problem) if isinstance(problem, OutlandError) else f"{type(problem).__name__}: {problem}"
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        write_text(path, json.dumps({"error": error, "when": when}) + "\n")
        return error

    def forget_failure(self, cell: Cell, spec: RunSpec) -> None:
        """Let a run be tried again, from the start where no checkpoint of it is intact."""
        for path in self._failures(cell, spec):
            path.unlink(missing_ok=True)
        checkpoints = self.folder(spec).checkpoints
        try:
            checkpoints.latest()
        except DamagedSnapshot:
            checkpoints.clear()

    def check(self, cell: Cell, spec: RunSpec) -> bool:
        """Whether what a finished run has left can be read; what cannot is put aside, and the run has failed."""
        whole = True
        record, measured = (
            (self.record, self.folder(spec).record_path, False),
            (self.measured, self._measured(spec), True),
        )
        for read, path, measuring in (record, measured) if cell.row.trained else (measured,):
            try:
                read(spec)
            except OutlandError as problem:
                path.replace(path.with_suffix(".damaged"))
                self.fail(spec, problem, measuring)
                whole = False
        return whole

    def _failure(self, spec: RunSpec, measuring: bool) -> Path:
        """Where a failure of the run, which all studies share, or of this study's measure is written."""
        return self.folder(spec).path / (f"failure-{self.study.name}.json" if measuring else "failure.json")

    def _failures(self, cell: Cell, spec: RunSpec) -> list[Path]:
        """The failures that concern a cell: one for which nothing is trained has none of training."""
        return [self._failure(spec, measuring) for measuring in (False, True) if measuring or cell.row.trained]

    def _measured(self, spec: RunSpec) -> Path:
        return self.folder(spec).path / f"measured-{self.study.name}.json"
