"""One run from spec to record: prepare, train, select, save; or go on where it was stopped."""

import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import torch

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.graphs import Cache, Splits
from outland.methods import Method, build_method
from outland.models import TrainedModel
from outland.nn import fit_descriptors
from outland.progress import say
from outland.spec import RunSpec, load_splits
from outland.stopping import stop_on_sigterm
from outland.training.callbacks import Callback
from outland.training.capture import Event, wait_for
from outland.training.checkpoint import Checkpoints
from outland.training.outcome import build_model, make_record, method_source
from outland.training.record import RunRecord
from outland.training.run_folder import RunFolder
from outland.training.targets import prepare_targets
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
    with stop_on_sigterm():
        wait_for(alone.steps(lambda: load_splits(spec, where, cache, data)))
    return alone.record


class Training:
    """The training of a spec on splits, in memory or with checkpoints.

    `ready` is called with the new method, before it is trained; `epochs` and `clock` as in `Trainer`.
    """

    def __init__(
        self,
        spec: RunSpec,
        splits: Splits,
        device: torch.device,
        checkpoints: Checkpoints | None = None,
        callback: Callback | None = None,
        ready: Callable[[Method], None] | None = None,
        epochs: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.spec, self.splits, self.device, self._source = spec, splits, device, method_source(spec)
        self.data = prepare_targets(splits, spec)
        settings = spec.train.with_epochs_for(len(self.data.splits["train"]))
        method = new_method(spec, self.data.splits, device)
        if ready is not None:
            ready(method)
        splits = self.data.splits
        self.trainer = Trainer(method, splits, settings, spec.seed, checkpoints, callback, epochs=epochs, clock=clock)

    def steps(self) -> Generator[Event, None, None]:
        """Train, with a pause after each step, on the run's own CUDA stream."""
        capture = self.trainer.capture
        try:
            yield from capture.on_stream(self.trainer.steps())
        finally:
            capture.close()

    def record(self) -> RunRecord:
        """The record of the finished training."""
        return make_record(self.spec, self.trainer, self.splits, self.device)

    def model(self) -> TrainedModel:
        """The selected model."""
        return build_model(self.spec, self.trainer, self.data, self.splits, self.device, self._source)


class Run:
    """A run, with the arguments of `run`, that can be carried out a step at a time: others may go on in between.

    `ready` is called with the new method, before it is trained.

    Attributes:
        record: once the steps are over.
        was_whole: whether all its epochs were trained here and now.
        clock: what its epochs are timed by; may be set before the first step.
    """

    record: RunRecord
    was_whole = False

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
        self.spec, self.folder, self.device, self._ready = spec, RunFolder(out, spec), device, ready
        self._resume, self._force, self._callback = resume, force, (callback or Callback()).for_run(spec)
        self.clock: Callable[[], float] = time.perf_counter

    def steps(self, load: Callable[[], Splits]) -> Generator[Event, None, None]:
        """Carry the run out, with a pause after each step; its data are asked for if they are needed."""
        spec, folder = self.spec, self.folder
        with folder.claimed(self._resume, self._force):
            if folder.is_finished:
                self.record = folder.read_record()
                folder.tidy()  # it may have been stopped just before it did
                return
            training = Training(
                spec, load(), self.device, folder.checkpoints, self._callback, self._ready, clock=self.clock
            )
            done = training.trainer.resume() if self._resume else 0
            if done:
                say(f"Going on at epoch {done} of {training.trainer.settings.epochs}, in {folder.path}")
            self.was_whole = done == 0
            yield from training.steps()
            self.record = training.record()
            yield None  # other runs go on in between
            model = training.model()
            yield None
            folder.finish(model, self.record)


def new_method(spec: RunSpec, splits: Splits, device: torch.device) -> Method:
    """The freshly initialised model of a run, on a device."""
    torch.manual_seed(spec.seed)
    descriptors = splits.graphs.extra.get("descriptors")
    schema = splits.schema if descriptors is None else replace(splits.schema, descriptors=descriptors.shape[1])
    method = build_method(spec.method, schema, spec.backbone, spec.method_params).to(device)
    if descriptors is not None:
        rows = splits["train"].unique()  # rare classes are drawn repeatedly
        fit_descriptors(method, descriptors[rows.to(descriptors.device)])
    return method


def prepare(
    spec: RunSpec, device: torch.device, cache: Cache | None = None, data: DataFolder | None = None
) -> tuple[Method, Splits]:
    """The freshly initialised model of a run and its data, on a device."""
    splits = load_splits(spec, device, cache, data)
    return new_method(spec, splits, device), splits
