"""The folder of one run: its spec, checkpoints while it trains, model and record once it is done."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outland.errors import OutlandError
from outland.models import TrainedModel, save_model
from outland.spec import RunSpec, spec_key
from outland.storage.files import refuse_symlink, remove_scratch, writable_folder, write_text
from outland.storage.folders import recover_folder
from outland.storage.locks import locked
from outland.storage.tensors import check_mapped
from outland.training.checkpoint import Checkpoints
from outland.training.record import RunRecord


class RunFolder:
    """The folder of one run: spec, checkpoints while it trains, model and record once it is done."""

    def __init__(self, out: Path | str, spec: RunSpec) -> None:
        self.path, self.spec = Path(out) / spec.slug, spec
        self.record_path, self.model_path = self.path / "record.json", self.path / "model"
        self.retrain_path = self.path / "retrain"  # while a run is trained again whose record has no model
        self.checkpoints = Checkpoints(self.path / "checkpoints")

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to train."""
        return self.record_path.exists() and not self.retrain_path.exists()

    def retrain(self) -> None:
        """Let the run be trained again, for its model; the record is valid until it is replaced at the end."""
        write_text(self.retrain_path, "")

    @contextmanager
    def claimed(self, resume: bool, force: bool) -> Iterator[None]:
        """Hold the folder, so that no second process trains in it; refuse to overwrite without being told."""
        refuse_symlink(self.path)
        writable_folder(self.path)
        with locked(self.path / ".lock", timeout=0, busy=f"another process is working in {self.path}"):
            refuse_symlink(self.checkpoints.folder, self.model_path)
            recover_folder(self.model_path)
            remove_scratch(self.path, "*")
            remove_scratch(self.checkpoints.folder, "epoch-*")
            if force:
                self.record_path.unlink(missing_ok=True)
                self.checkpoints.clear()
                shutil.rmtree(self.model_path, ignore_errors=True)
            elif not resume and (self.record_path.exists() or self.checkpoints.newest()):
                finished = self.record_path.exists()
                state, verb = ("finished", "see its result") if finished else ("begun", "go on with it")
                raise OutlandError(
                    f"this run was already {state} in {self.path}: use --resume to {verb}, or --force to start over"
                )
            write_text(self.path / "spec.json", json.dumps(self.spec.to_json(), indent=1) + "\n")
            yield

    def read_record(self) -> RunRecord:
        """The record of the finished run; an error if it is damaged, or that of another run."""
        record = RunRecord.read(self.record_path)
        if record.key != self.spec.key or not _is_of(record, self.spec):
            raise OutlandError(
                f"{self.record_path} is the record of another run: remove it, or start the run again with --force"
            )
        return record

    def finish(self, model: TrainedModel, record: RunRecord) -> None:
        """Save the selected model, then the record that says the run is done; checkpoints are then of no use.

        Neither is written if the data have been changed on disk meanwhile.
        """
        check_mapped()
        shutil.rmtree(self.model_path, ignore_errors=True)  # of an earlier try
        save_model(model, self.model_path)
        record.write(self.record_path)
        self.tidy()

    def adopt(self, record: RunRecord) -> None:
        """Save the record of the same run on another machine, whose model is not here; what was begun is of no use."""
        shutil.rmtree(self.model_path, ignore_errors=True)
        record.write(self.record_path)
        self.tidy()

    def tidy(self) -> None:
        """Remove what only an unfinished run needs."""
        self.retrain_path.unlink(missing_ok=True)
        self.checkpoints.clear()


def _is_of(record: RunRecord, spec: RunSpec) -> bool:
    """Whether the spec that a record holds has the key that it names: a copied record has another's."""
    try:
        return spec_key(record.spec) == spec.key
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False
