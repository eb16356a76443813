"""One run from spec to record: prepare, train, select, save; or go on where it was stopped."""

import json
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from outland.datasets import DataFolder, find_dataset
from outland.devices import find_device
from outland.errors import Busy, OutlandError
from outland.graphs import Cache, Schema, Splits
from outland.methods import Method, build_method, is_file, rebuild_method
from outland.progress import say
from outland.spec import RunSpec
from outland.storage.files import sweep, writable_folder, write_text
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from outland.training.callbacks import Callback
from outland.training.checkpoint import Checkpoints
from outland.training.data_parallel import describe_parallelism
from outland.training.mask_quality import mask_quality
from outland.training.record import RunRecord, describe_platform
from outland.training.selection import selections
from outland.training.trainer import Trainer


def run(
    spec: RunSpec,
    out: Path | str,
    *,
    resume: bool = False,
    force: bool = False,
    device: str = "auto",
    cache: Cache | None = None,
    data: DataFolder | None = None,
    callback: Callback | None = None,
) -> RunRecord:
    """Carry out a run in its own folder under `out` and return its record.

    Args:
        spec: what to do.
        out: folder of runs; the run's own is named after the spec.
        resume: go on from the newest checkpoint; a finished run is returned as it is.
        force: throw away what an earlier run of this spec left.
        device: `cpu`, `cuda`, or `auto` for whichever is there.
        cache: of prepared data.
        data: folder of raw files.
        callback: what a person sees.
    """
    where = find_device(device)
    alone = Run(spec, out, where, resume=resume, force=force, callback=callback)
    for _ in alone.steps(lambda: load_splits(spec, where, cache, data)):
        pass
    return alone.record


class Run:
    """A run that can be carried out a step at a time, so that others may go on in between.

    Args:
        spec, out, resume, force, callback: as in `run`.
        device: where.
        ready: what is still to be done to a fresh model.

    Attributes:
        record: what came out, once the steps are over.
    """

    record: RunRecord

    def __init__(
        self,
        spec: RunSpec,
        out: Path | str,
        device: torch.device,
        *,
        resume: bool = False,
        force: bool = False,
        callback: Callback | None = None,
        ready: Callable[[Method], None] | None = None,
    ) -> None:
        self._ready = ready
        self.spec, self.folder, self.device = spec, RunFolder(out, spec), device
        self._resume, self._force, self._callback = resume, force, (callback or Callback()).for_run(spec)

    def steps(self, load: Callable[[], Splits]) -> Generator[None, None, None]:
        """Carry the run out, with a pause after each step; its data are asked for if they are needed."""
        spec, folder = self.spec, self.folder
        with folder.claimed(self._resume, self._force):
            if folder.record_path.exists():
                self.record = RunRecord.read(folder.record_path)
                folder.checkpoints.clear()  # it may have been stopped just before it did
                return
            splits = load()
            method = new_method(spec, splits, self.device)
            if self._ready is not None:
                self._ready(method)
            trainer = Trainer(method, splits, spec.train, spec.seed, folder.checkpoints, self._callback)
            done = trainer.resume() if self._resume else 0
            if done:
                say(f"Going on at epoch {done} of {spec.train.epochs}, in {folder.path}")
            yield from trainer.capture.on_stream(trainer.steps())
            self.record = _record(spec, trainer, self.device)
            folder.finish(method, self.record)


def load_splits(
    spec: RunSpec, device: torch.device, cache: Cache | None = None, data: DataFolder | None = None
) -> Splits:
    """The data of a run, on a device."""
    splits = find_dataset(spec.dataset, spec.table).load(spec.domain, spec.kind, spec.data.seed, cache, data)
    if spec.data.limit is not None:
        splits = splits.limit(spec.data.limit, spec.data.seed)
    return splits.check().to(device)


def new_method(spec: RunSpec, splits: Splits, device: torch.device) -> Method:
    """The freshly initialised model of a run, on a device."""
    torch.manual_seed(spec.seed)
    return build_method(spec.method, splits.schema, spec.backbone, spec.method_params).to(device)


def prepare(
    spec: RunSpec, device: torch.device, cache: Cache | None = None, data: DataFolder | None = None
) -> tuple[Method, Splits]:
    """The freshly initialised model of a run and its data, on a device."""
    splits = load_splits(spec, device, cache, data)
    return new_method(spec, splits, device), splits


class RunFolder:
    """The folder of one run: spec, checkpoints while it trains, model and record once it is done."""

    def __init__(self, out: Path | str, spec: RunSpec) -> None:
        self.path = Path(out) / spec.slug
        self.spec = spec
        self.record_path = self.path / "record.json"
        self.checkpoints = Checkpoints(self.path / "checkpoints")

    @contextmanager
    def claimed(self, resume: bool, force: bool) -> Iterator[None]:
        """Hold the folder, so that no second process trains in it; refuse to overwrite without being told."""
        writable_folder(self.path)
        try:
            with FileLock(self.path / ".lock", timeout=0):
                sweep(self.path, "spec.json", "record.json", "model")
                sweep(self.checkpoints.folder, "epoch-*")
                if force:
                    self._clear()
                elif not resume and (self.record_path.exists() or self.checkpoints.newest()):
                    finished = self.record_path.exists()
                    state, verb = ("finished", "see its result") if finished else ("begun", "go on with it")
                    raise OutlandError(
                        f"this run was already {state} in {self.path}: use --resume to {verb}, or --force to start over"
                    )
                write_text(self.path / "spec.json", json.dumps(self.spec.to_json(), indent=1) + "\n")
                yield
        except Timeout:
            raise Busy(f"another process is working in {self.path}") from None

    def _clear(self) -> None:
        self.record_path.unlink(missing_ok=True)
        self.checkpoints.clear()
        shutil.rmtree(self.path / "model", ignore_errors=True)

    def finish(self, method: Method, record: RunRecord) -> None:
        """Save the selected model, then the record that says the run is done; checkpoints are then of no use."""
        about = {"spec": self.spec.to_json(), "schema": method.schema.to_json()}
        write_snapshot(self.path / "model", Snapshot(dict(method.state_dict()), about))
        record.write(self.record_path)
        self.checkpoints.clear()


def load_model(folder: Path | str) -> Method:
    """The selected model of a finished run, ready to predict. Nothing the folder holds or names is executed."""
    saved = read_snapshot(Path(folder) / "model")
    try:
        plain = saved.values["spec"]
        if is_file(plain["method"]):
            raise OutlandError(
                f"the method of {folder} is in a file of its own, {plain['method']}, which loading would have to run: "
                "build it yourself and load the weights with read_snapshot"
            )
        spec, schema = RunSpec.from_json(plain), Schema.from_json(saved.values["schema"])
        return rebuild_method(spec.method, schema, spec.backbone, spec.method_params, saved.tensors).eval()
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        told = str(problem).strip().partition("\n")[0]
        raise DamagedSnapshot(f"the model in {folder} does not fit together: {told}") from None


def _about(splits: Splits) -> dict[str, Any]:
    """Where the data came from and how large it is; of rows set aside, their number; of yes and no, how many each."""
    plain = {name: value for name, value in splits.source.items() if name not in ("quarantine", "split_words")}
    if "quarantine" in splits.source:
        plain["quarantined"] = len(splits.source["quarantine"])
    if splits.schema.task.kind == "binary" and splits.schema.task.outputs == 1:
        labels = {name: splits.graphs.y[index] for name, index in splits.parts.items()}
        plain["classes"] = {name: [int((y == 0).sum()), int((y == 1).sum())] for name, y in labels.items()}
    return {**plain, "sizes": {name: len(index) for name, index in splits.parts.items()}}


def _record(spec: RunSpec, trainer: Trainer, device: torch.device) -> RunRecord:
    task, burn_in = trainer.splits.schema.task, spec.train.burn_in_epochs()
    selected: str = spec.train.select
    if burn_in and selected != "last_epoch":
        selected += "+burn_in"
    return RunRecord(
        key=spec.key,
        spec=spec.to_json(),
        metric=task.metric,
        data=_about(trainer.splits),
        curves=trainer.curves,
        selection=selections(trainer.curves, task, burn_in),
        selected=selected,
        masks=mask_quality(trainer.method, trainer.splits, spec.train.scoring_batch(device)),
        parameters=trainer.method.parameter_counts(),
        platform=describe_platform(device) | describe_parallelism(trainer.method),
        timing={
            "seconds": sum(trainer.seconds),
            "epochs": trainer.seconds,
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )
