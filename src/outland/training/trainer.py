"""The training loop."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from outland.distributed import rank, world_size
from outland.errors import OutlandError
from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.progress import say
from outland.spec import TrainSettings
from outland.storage.snapshots import Snapshot
from outland.training.callbacks import Callback
from outland.training.capture import GraphCapture
from outland.training.checkpoint import Checkpoints, random_state, restore_random_state
from outland.training.data_parallel import DistributedBatches
from outland.training.evaluate import Evaluation
from outland.training.selection import choosing_rule
from outland.training.stepper import DIAGNOSTICS, Stepper
from outland.training.steps import EagerSteps, LossValues, ReplayedSteps, Steps

_RANK_STRIDE = 1_000_003  # between the seeds of processes that train together


class Diverged(OutlandError):
    """The loss became NaN or infinite."""


class Trainer:
    """Trains a method and keeps the best weights by the run's selection rule.

    Everything random follows from `seed`. Nothing is read from the device while an epoch runs.

    Args:
        method: the model, already on its device.
        splits: the data, on the same device.
        settings: epochs, batches, schedule and selection.
        seed: of batch order, dropout and the method's own draws.
        checkpoints: of the run; None writes none.
        callback: called at the events of training.
        replay: capture steps and replay them (see `ReplayedSteps`); by default on a GPU.
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
        batches_type = Batches if world_size() == 1 else DistributedBatches
        self.batches = batches_type(
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
        self.capture = GraphCapture(self.device)
        self.replay = self.device.type == "cuda" and world_size() == 1 if replay is None else replay
        self.curves: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self.best: dict[str, Tensor] = {}

    def resume(self) -> int:
        """Load the newest intact checkpoint, if there is one; returns the number of epochs done."""
        snapshot = self.checkpoints.latest() if self.checkpoints is not None else None
        if snapshot is None:
            return 0
        self.method.load_state_dict(snapshot.group("model"))
        self.stepper.load_state_dict(snapshot.group("optimizer"))
        if self.stepper.average is not None:
            self.stepper.average.load_state_dict(snapshot.group("average"))
        self.best = {name: tensor.to(self.device) for name, tensor in snapshot.group("best").items()}
        self.curves, self.seconds = snapshot.values["curves"], snapshot.values["seconds"]
        self.method.reseed(self.seed, self.device)
        if snapshot.values["device"] == self.device.type:
            restore_random_state(snapshot.group("random"), self.device, self.method)
        else:
            done = len(self.curves)
            begun = f"Resuming on {self.device.type} a run begun on {snapshot.values['device']}"
            say(f"{begun}: random draws start afresh at epoch {done}", "yellow")
            torch.manual_seed(self.seed + 1000 * done)
            self.method.reseed(self.seed + 1000 * done, self.device)
        if rank():  # the checkpoint is the main process's
            self.method.reseed(self.seed + 1000 * len(self.curves) + _RANK_STRIDE * rank(), self.device)
        return len(self.curves)

    def fit(self) -> None:
        """Train to the last epoch; the method has the selected weights afterwards."""
        for _ in self.capture.on_stream(self.steps()):
            pass

    def steps(self) -> Iterator[None]:
        """As `fit`, with a pause after each step; nothing waits for the device before the epoch's last."""
        settings, done = self.settings, len(self.curves)
        if not done:
            torch.manual_seed(self.seed)
            self.method.reseed(self.seed + _RANK_STRIDE * rank(), self.device)
        steps, evaluation = self.new_steps(), self.new_evaluation()
        self.callback.on_train_start(self.method.name, settings.epochs, len(self.batches), done)
        try:
            for epoch in range(done, settings.epochs):
                yield from self._epoch(epoch, steps, evaluation)
                if self.checkpoints is not None and (epoch + 1) % settings.checkpoint_every == 0:
                    self.checkpoints.save(epoch + 1, self._snapshot())
        finally:
            self.callback.on_train_end()
            self.method.requires_grad_(True)
        self.method.load_state_dict(self.best)
        self.method.eval()

    def new_steps(self) -> Steps:
        """The steps of training, eager or replayed, which draw from the method's present generators."""
        if not self.replay:
            return EagerSteps(self.stepper, self.batches)
        return ReplayedSteps(self.stepper, self.batches, self._registered_capture())

    def new_evaluation(self) -> Evaluation:
        """The evaluation of all parts, eager or replayed."""
        size, capture = self.settings.scoring_batch(self.device), self._registered_capture() if self.replay else None
        return Evaluation(self.method, self.splits, size, capture, self.settings.precision)

    def _registered_capture(self) -> GraphCapture:
        self.capture.generators = (self.method.random, self.method.dropout_random)
        return self.capture

    def _epoch(self, epoch: int, steps: Steps, evaluation: Evaluation) -> Iterator[None]:
        started = time.perf_counter()
        self.stepper.set_learning_rates(epoch)
        for _ in steps.epoch(epoch, self.settings.epochs):
            self.callback.on_step_end()
            yield
        unaveraged = None
        if self.stepper.average is not None:  # the weights of the last step, to show what averaging gains
            evaluation.run()
            unaveraged = evaluation.logits.clone()
        with self._scored_weights():
            evaluation.run()
        yield  # other runs go on while the device works
        self._score(epoch, steps, evaluation, started, unaveraged)

    def _scored_weights(self) -> AbstractContextManager[None]:
        """Context in which the model has the weights that are scored and saved: its own, or their average."""
        return nullcontext() if self.stepper.average is None else self.stepper.average.applied()

    def _score(
        self, epoch: int, steps: Steps, evaluation: Evaluation, started: float, unaveraged: Tensor | None
    ) -> None:
        """Append the epoch to the curves, and keep the weights if they are the best so far."""
        losses = self._mean_losses(steps.log(), epoch)
        self._check_weights(epoch)
        names = [name for name in losses if name.startswith(DIAGNOSTICS)]
        diagnostics = {name.removeprefix(DIAGNOSTICS): losses.pop(name) for name in names}
        row: dict[str, Any] = {"epoch": epoch, "loss": losses, "diagnostics": diagnostics, **evaluation.scores()}
        if unaveraged is not None:
            row["unaveraged"] = evaluation.scores(unaveraged)
        self.curves.append(row)
        self.seconds.append(time.perf_counter() - started)
        task = self.splits.schema.task
        if self.rule.pick(self.curves, task) == epoch:
            with self._scored_weights():
                self.best = {name: tensor.detach().clone() for name, tensor in self.method.state_dict().items()}
        self.callback.on_epoch_end(row, task.metric)
        if self.capture.refusal and len(self.seconds) == 1:
            say(f"Steps are taken one by one, for they cannot be captured: {self.capture.refusal}", "yellow")

    def _mean_losses(self, log: list[LossValues], epoch: int) -> LossValues:
        """Mean of each term over the epoch; the first value that is not finite raises `Diverged`."""
        values: dict[str, list[float]] = {}
        for step, row in enumerate(log, epoch * len(self.batches)):
            for name, value in row.items():
                if not math.isfinite(value):
                    self._diverged(name, step)
                values.setdefault(name, []).append(value)
        return {name: math.fsum(terms) / len(terms) for name, terms in values.items()}

    def _check_weights(self, epoch: int) -> None:
        """Raise `Diverged` if a weight is not finite: a loss can be finite and its gradient not."""
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
            "optimizer": self.stepper.state_dict(),
            "best": self.best,
            "average": {} if self.stepper.average is None else self.stepper.average.state_dict(),
            "random": random_state(self.device, self.method),
        }
        tensors = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
        return Snapshot(tensors, {"curves": self.curves, "seconds": self.seconds, "device": self.device.type})
