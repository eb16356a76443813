"""The training loop."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from outland.distributed import rank, world_size
from outland.errors import OutlandError
from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.progress import console
from outland.spec import TrainSettings
from outland.storage.snapshots import Snapshot
from outland.training.callbacks import Callback
from outland.training.checkpoint import Checkpoints, random_state, restore_random_state
from outland.training.evaluate import Evaluation
from outland.training.parallel import PartBatches
from outland.training.replay import Recorder
from outland.training.selection import choosing_rule
from outland.training.stepper import WATCHED, Stepper
from outland.training.steps import EagerSteps, ReplayedSteps, Row, Steps

_APART = 1_000_003  # between the random numbers of processes that train together


class Diverged(OutlandError):
    """The loss became NaN or infinite."""


class Trainer:
    """Trains a method and keeps the best model by the run's selection rule.

    Everything random follows from `seed`. Nothing is read from the device while an epoch runs.

    Args:
        method: the model, already on its device.
        splits: the data, on the same device.
        settings: the frame of the run.
        seed: of batch order, dropout and the method's own draws.
        checkpoints: where snapshots go; None keeps none.
        callback: what a person sees.
        replay: record steps and replay them (see `ReplayedSteps`); by default on a GPU.
    """

    def __init__(
        self,
        method: Method,
        splits: Splits,
        settings: TrainSettings,
        seed: int = 0,
        checkpoints: Checkpoints | None = None,
        callback: Callback | None = None,
        replay: bool | None = None,
    ) -> None:
        self.method, self.splits, self.settings = method, splits, settings
        self.checkpoints, self.callback = checkpoints, callback or Callback()
        self.device = splits.graphs.device
        self.rule = choosing_rule(settings.select, settings.burn_in_epochs())
        if self.rule.part is not None and self.rule.part not in splits:
            raise OutlandError(
                f"train.select={settings.select} needs the part '{self.rule.part}', and this data has only "
                f"{', '.join(splits.parts)}"
            )
        kind = Batches if world_size() == 1 else PartBatches
        self.batches = kind(
            splits.graphs,
            splits["train"],
            settings.batch_size,
            shuffle=True,
            balance=settings.balance,
            seed=seed,
            layout=settings.layout,
        )
        self.seed = seed
        method.prepare(splits.graphs, splits["train"], seed)
        self.stepper = Stepper(method, settings)
        self.recorder = Recorder(self.device)
        self.replay = self.device.type == "cuda" and world_size() == 1 if replay is None else replay
        self.curves: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self.best: dict[str, Tensor] = {}

    def resume(self) -> int:
        """Go back to the newest intact checkpoint, if there is one; how many epochs are done."""
        snapshot = self.checkpoints.latest() if self.checkpoints is not None else None
        if snapshot is None:
            return 0
        self.method.load_state_dict(snapshot.group("model"))
        self.stepper.restore(snapshot.group("optimiser"))
        if self.stepper.average is not None:
            self.stepper.average.restore(snapshot.group("average"))
        self.best = {name: tensor.to(self.device) for name, tensor in snapshot.group("best").items()}
        self.curves, self.seconds = snapshot.values["curves"], snapshot.values["seconds"]
        self.method.reseed(self.seed, self.device)
        if snapshot.values["device"] == self.device.type:
            restore_random_state(snapshot.group("random"), self.device, self.method)
        else:
            done = len(self.curves)
            console().print(
                f"[yellow]Resuming on {self.device.type} a run begun on {snapshot.values['device']}: random "
                f"draws start afresh at epoch {done}[/]"
            )
            torch.manual_seed(self.seed + 1000 * done)
            self.method.reseed(self.seed + 1000 * done, self.device)
        if rank():  # the checkpoint is the first process's
            self.method.reseed(self.seed + 1000 * len(self.curves) + _APART * rank(), self.device)
        return len(self.curves)

    def fit(self) -> None:
        """Train to the last epoch and leave the method with the selected weights."""
        for _ in self.recorder.each(self.steps()):
            pass

    def steps(self) -> Iterator[None]:
        """What `fit` does, with a pause after each step; nobody waits for the device before the epoch's last."""
        settings, done = self.settings, len(self.curves)
        if not done:
            torch.manual_seed(self.seed)
            self.method.reseed(self.seed + _APART * rank(), self.device)
        steps, evaluation = self._ready()
        self.callback.start(self.method.name, settings.epochs, len(self.batches), done)
        try:
            for epoch in range(done, settings.epochs):
                yield from self._epoch(epoch, steps, evaluation)
                if self.checkpoints is not None and (epoch + 1) % settings.checkpoint_every == 0:
                    self.checkpoints.save(epoch + 1, self._snapshot())
        finally:
            self.callback.stop()
            self.method.requires_grad_(True)
        self.method.load_state_dict(self.best)
        self.method.eval()

    def _ready(self) -> tuple[Steps, Evaluation]:
        """How steps are taken and parts are scored."""
        self.recorder.streams = (self.method.random, self.method.dropout_random)
        recorder = self.recorder if self.replay else None
        size, precision = self.settings.scoring_batch(self.device), self.settings.precision
        evaluation = Evaluation(self.method, self.splits, size, recorder, precision)
        if recorder is None:
            return EagerSteps(self.stepper, self.batches), evaluation
        return ReplayedSteps(self.stepper, self.batches, recorder), evaluation

    def _epoch(self, epoch: int, steps: Steps, evaluation: Evaluation) -> Iterator[None]:
        started = time.perf_counter()
        self.stepper.start_epoch(epoch)
        for _ in steps.epoch(epoch, self.settings.epochs):
            self.callback.step()
            yield
        before = self._predict_unaveraged(evaluation)
        with self._kept_weights():
            evaluation.run()
        yield  # others go on while the device is at it
        self._score(epoch, steps, evaluation, started, before)

    def _predict_unaveraged(self, evaluation: Evaluation) -> Tensor | None:
        """Logits by the weights of the last step, where their average is kept: so that a run says what that gained."""
        if self.stepper.average is None:
            return None
        evaluation.run()
        return evaluation.logits.clone()

    @contextmanager
    def _kept_weights(self) -> Iterator[None]:
        """The model has the weights that are scored and kept: its own, or their average."""
        if self.stepper.average is None:
            yield
            return
        with self.stepper.average.applied():
            yield

    def _score(self, epoch: int, steps: Steps, evaluation: Evaluation, started: float, before: Tensor | None) -> None:
        """Add the epoch to the curves, and keep the weights if they are the best so far."""
        found = self._read(steps.log(), epoch)
        self._check_weights(epoch)
        watched = {name.removeprefix(WATCHED): found.pop(name) for name in list(found) if name.startswith(WATCHED)}
        row: dict[str, Any] = {"epoch": epoch, "loss": found, "watch": watched, **evaluation.scores()}
        if before is not None:
            row["unaveraged"] = evaluation.scores(before)
        self.curves.append(row)
        self.seconds.append(time.perf_counter() - started)
        task = self.splits.schema.task
        if self.rule.pick(self.curves, task) == epoch:
            with self._kept_weights():
                self.best = {name: tensor.detach().clone() for name, tensor in self.method.state_dict().items()}
        self.callback.epoch(row, task.metric)
        if self.recorder.refused and len(self.seconds) == 1:
            console().print(
                f"[yellow]Steps are taken one by one, for they cannot be recorded: {self.recorder.refused}[/]"
            )

    def _read(self, log: list[Row], epoch: int) -> dict[str, float]:
        """Mean of each number over the epoch; the first one that is not finite stops the run."""
        values: dict[str, list[float]] = {}
        for place, row in enumerate(log):
            for name, value in row.items():
                if not math.isfinite(value):
                    self._diverged(name, epoch * len(self.batches) + place)
                values.setdefault(name, []).append(value)
        return {name: math.fsum(found) / len(found) for name, found in values.items()}

    def _check_weights(self, epoch: int) -> None:
        """A loss can be finite and its gradient not: what would be saved must be finite too."""
        names, parameters = zip(*self.method.named_parameters(), strict=True)
        finite = torch.stack([parameter.detach().norm() for parameter in parameters]).isfinite().tolist()
        if not all(finite):
            part = names[finite.index(False)].partition(".")[0]
            self._diverged(f"of {part} (its gradient)", (epoch + 1) * len(self.batches) - 1)

    def _diverged(self, term: str, step: int) -> None:
        saved = self.checkpoints.newest() if self.checkpoints is not None else None
        after = f"the last good checkpoint is {saved}" if saved else "there is no checkpoint yet"
        raise Diverged(
            f"the loss term {term} became NaN or infinite at step {step}; {after}. "
            "A smaller method.lr is the usual cure."
        )

    def _snapshot(self) -> Snapshot:
        groups = {
            "model": self.method.state_dict(),
            "optimiser": self.stepper.state(),
            "best": self.best,
            "average": {} if self.stepper.average is None else self.stepper.average.state(),
            "random": random_state(self.device, self.method),
        }
        tensors = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
        return Snapshot(tensors, {"curves": self.curves, "seconds": self.seconds, "device": self.device.type})
