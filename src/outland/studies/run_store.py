"""The state of a study's runs, as their own folders hold it."""

import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from outland.errors import Busy, OutlandError, printable
from outland.spec import RunSpec
from outland.storage.files import read_json, write_text
from outland.storage.snapshots import DamagedSnapshot
from outland.storage.tensors import check_mapped
from outland.studies.base import Cell, Measurement, Study
from outland.training import RunRecord
from outland.training.run_folder import RunFolder

RunState = Literal["done", "failed", "begun", "waiting"]


class RunStore:
    """The runs of a study in `runs` below `out`; runs that several studies share are there once."""

    def __init__(self, study: Study, out: Path) -> None:
        self.study, self.folder = study, out / "runs"

    def run_folder(self, spec: RunSpec) -> RunFolder:
        """The folder of a run."""
        return RunFolder(self.folder, spec)

    def state(self, cell: Cell, spec: RunSpec) -> RunState:
        """Whether a run is done, failed, begun or waiting."""
        folder = self.run_folder(spec)
        trained = not cell.row.trained or folder.record_path.exists()
        if trained and (self.study.measure is None or self.measurement_path(spec).exists()):
            return "done"
        if self.failure(cell, spec) is not None:
            return "failed"
        if not cell.row.trained:  # the state of its training is another study's
            return "waiting"
        return "begun" if folder.record_path.exists() or folder.checkpoints.newest() else "waiting"

    def progress(self, cell: Cell, spec: RunSpec) -> float:
        """Share of a run that is over, from 0 to 1, by its state and its newest checkpoint."""
        if self.state(cell, spec) in ("done", "failed"):
            return 1.0
        newest = self.run_folder(spec).checkpoints.newest()
        return 0.99 * int(newest.name.partition("-")[2]) / spec.train.epochs if newest else 0.0

    def record(self, spec: RunSpec) -> RunRecord | None:
        """The record of a finished run; None where there is none."""
        folder = self.run_folder(spec)
        return folder.read_record() if folder.record_path.exists() else None

    def measurement(self, spec: RunSpec) -> Measurement | None:
        """The measurement of this study on top of a run; None where there is none, an error if it is another run's."""
        path = self.measurement_path(spec)
        if not path.exists():
            return None
        try:
            plain = read_json(path)
            key, measurement = plain.pop("key"), Measurement(**plain)
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as problem:
            raise OutlandError(f"{path} is not a measurement ({problem}): remove it and run the study again") from None
        if key != spec.key:
            raise OutlandError(f"{path} is the measurement of another run: remove it and run the study again")
        return measurement

    def save_measurement(self, spec: RunSpec, measurement: Measurement) -> None:
        """Write a measurement, in one piece."""
        path = self.measurement_path(spec)
        path.parent.mkdir(parents=True, exist_ok=True)
        check_mapped()
        write_text(path, json.dumps({"key": spec.key, **asdict(measurement)}, allow_nan=False) + "\n")
        if not (path.parent / "spec.json").exists():  # nothing was trained for it
            write_text(path.parent / "spec.json", json.dumps(spec.to_json(), indent=1) + "\n")

    def failure(self, cell: Cell, spec: RunSpec) -> str | None:
        """The error of a run, or of this study's measurement on top of it; None where it did not fail."""
        for path in self._failure_paths(cell, spec):
            with suppress(OSError, ValueError, KeyError, TypeError):
                return printable(str(read_json(path)["error"]))
        return None

    def save_failure(self, spec: RunSpec, problem: Exception, measuring: bool = False) -> str | None:
        """Write the error of a run or its measurement; returns it, or None where another process has the run."""
        if isinstance(problem, Busy):
            return None
        path = self.failure_path(spec, measuring)
        path.parent.mkdir(parents=True, exist_ok=True)
        error = str(problem) if isinstance(problem, OutlandError) else f"{type(problem).__name__}: {problem}"
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        write_text(path, json.dumps({"error": error, "when": when}) + "\n")
        return error

    def clear_failure(self, cell: Cell, spec: RunSpec) -> None:
        """Let a run be tried again, from the start where no checkpoint is intact or a model to measure is not here."""
        for path in self._failure_paths(cell, spec):
            path.unlink(missing_ok=True)
        folder = self.run_folder(spec)
        needs_model = self.study.measure is not None and cell.row.trained
        if needs_model and folder.record_path.exists() and not folder.model_path.is_dir():
            folder.retrain()  # meanwhile the record counts, for other studies too
        checkpoints = folder.checkpoints
        try:
            checkpoints.latest()
        except DamagedSnapshot:
            checkpoints.clear()

    def verify(self, cell: Cell, spec: RunSpec) -> bool:
        """Whether the files of a finished run can be read; those that cannot are renamed, and the run has failed."""
        intact = True
        for measuring in (False, True) if cell.row.trained else (True,):
            try:
                _ = self.measurement(spec) if measuring else self.record(spec)
            except OutlandError as problem:
                path = self.measurement_path(spec) if measuring else self.run_folder(spec).record_path
                path.replace(path.with_suffix(".damaged"))
                self.save_failure(spec, problem, measuring)
                intact = False
        return intact

    def measurement_path(self, spec: RunSpec) -> Path:
        """The file of this study's measurement on top of a run."""
        return self.run_folder(spec).path / f"measured-{self.study.name}.json"

    def failure_path(self, spec: RunSpec, measuring: bool) -> Path:
        """The file of a failure of the run, which all studies share, or of this study's measurement."""
        return self.run_folder(spec).path / (f"failure-{self.study.name}.json" if measuring else "failure.json")

    def _failure_paths(self, cell: Cell, spec: RunSpec) -> list[Path]:
        """The files of failures that concern a cell: without training, none of training."""
        return [self.failure_path(spec, measuring) for measuring in (False, True) if measuring or cell.row.trained]
