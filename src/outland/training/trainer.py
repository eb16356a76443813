"""The training loop."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from outland.distributed import rank, world_size
from outland.errors import CannotWrite, OutlandError, printable
from outland.graphs import Batches, Splits
from outland.methods import Method
from outland.progress import say
from outland.spec import TrainSettings
from outland.stopping import Stopped, is_overdue, is_stopping
from outland.storage.snapshots import DamagedSnapshot, Snapshot
from outland.training.best import BestWeights
from outland.training.callbacks import Callback
from outland.training.capture import Event, GraphCapture, wait_for
from outland.training.checkpoint import Checkpoints, checked_state, random_state, restore_random_state
from outland.training.data_parallel import DistributedBatches
from outland.training.evaluate import Evaluation
from outland.training.host_copy import HostCopy
from outland.training.selection import choosing_rule
from outland.training.stepper import DIAGNOSTICS, Stepper
from outland.training.steps import EagerSteps, LossLog, ReplayedSteps, Steps

EPOCHS_AHEAD = 3  # that are launched before the results of an epoch are read
CHECKPOINT_SECONDS = 60.0  # between two checkpoints of a run, at least
_RANK_STRIDE = 1_000_003  # between the seeds of processes that train together


class Diverged(OutlandError):
    """The loss became NaN or infinite."""


class EpochResult(NamedTuple):
    """What came out of an epoch, on its way to the host."""

    epoch: int
    names: list[list[str]]  # of each step's loss terms
    copy: HostCopy  # scores by part, those without averaging, whether each parameter is finite, loss terms


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
        epochs: end after so many of the epochs that `settings` plan, and schedule learning rates for; by default all.
        clock: what epochs are timed by.
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
        epochs: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.method, self.splits, self.settings = method, splits, settings
        self.epochs = min(epochs or settings.epochs, settings.epochs)
        self.checkpoints, self.callback = checkpoints, callback or Callback()
        self.device = splits.graphs.device
        burn_in = max(settings.burn_in_epochs(), method.barred_epochs(settings.epochs))
        self.rule = choosing_rule(settings.select, burn_in)
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
            weight=splits.graphs.extra.get("sample_weight"),
            layout=settings.layout,
        )
        self.seed = seed
        method.prepare(splits.graphs, splits["train"], seed)
        self.stepper = Stepper(method, settings)
        self.capture = GraphCapture(self.device)
        self.replay = self.device.type == "cuda" and world_size() == 1 if replay is None else replay
        self._capture = self.capture if self.replay else None
        self.curves: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self._clock, self._last_read = clock, clock()

    @cached_property
    def evaluation(self) -> Evaluation:
        """The evaluation of all parts, eager or replayed."""
        size, precision = self.settings.scoring_batch(self.device), self.settings.precision
        return Evaluation(self.method, self.splits, size, self._capture, precision)

    @cached_property
    def best(self) -> BestWeights:
        """The weights of the best epoch so far."""
        return BestWeights(self.method, self.rule, self.splits.schema.task, list(self.evaluation.parts), self._capture)

    def resume(self) -> int:
        """Load the newest intact checkpoint, if there is one; returns the number of epochs done."""
        snapshot = self.checkpoints.latest() if self.checkpoints is not None else None
        if snapshot is None:
            return 0
        try:
            self._load(snapshot)
        except torch.OutOfMemoryError:
            raise  # of a run that others left too little memory for
        except (LookupError, RuntimeError, TypeError, ValueError) as problem:
            assert self.checkpoints is not None
            reason = " ".join(str(problem).split()[:40])
            raise DamagedSnapshot(
                f"the checkpoint in {self.checkpoints.folder} is not one of this run ({reason}): "
                "start the run again with --force"
            ) from None
        return len(self.curves)

    def _load(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint; nothing but a few kinds of error is raised where it is not one of this training."""
        scored = dict.fromkeys(self.evaluation.parts, self.splits.schema.task.metric)
        state = checked_state(snapshot, self._snapshot(), scored, self.settings.epochs)
        self.method.load_state_dict(snapshot.group("model"))
        self.stepper.load_state_dict(snapshot.group("optimizer"))
        if self.stepper.average is not None:
            self.stepper.average.load_state_dict(snapshot.group("average"))
        self.curves, self.seconds = state.curves, state.seconds
        self.best.load(snapshot.group("best"), self.curves)
        self.method.reseed(self.seed, self.device)
        if state.device == self.device.type:
            restore_random_state(snapshot.group("random"), self.device, self.method)
        else:
            done = len(self.curves)
            begun = f"Resuming on {self.device.type} a run begun on {printable(state.device, 20)}"
            say(f"{begun}: random draws start afresh at epoch {done}", "yellow")
            torch.manual_seed(self.seed + 1000 * done)
            self.method.reseed(self.seed + 1000 * done, self.device)
        if rank():  # the checkpoint is the main process's
            self.method.reseed(self.seed + 1000 * len(self.curves) + _RANK_STRIDE * rank(), self.device)

    def fit(self) -> None:
        """Train to the last epoch; the method has the selected weights afterwards."""
        wait_for(self.capture.on_stream(self.steps()))

    def steps(self) -> Iterator[Event]:
        """As `fit`, with a pause after each step; yields what the next step waits for, where it waits for the device.

        Where steps are replayed the device is some epochs ahead of what the host has read, so that it has work while
        the host prepares or ends other runs: scores and losses of an epoch are copied while the next ones run.
        """
        done = len(self.curves)
        if not done:
            torch.manual_seed(self.seed)
            self.method.reseed(self.seed + _RANK_STRIDE * rank(), self.device)
        steps, ahead = self.new_steps(), EPOCHS_AHEAD if self.replay else 0
        saved, unread = time.monotonic(), deque[EpochResult]()
        self.callback.on_train_start(self.method.name, self.epochs, len(self.batches), done)
        self._last_read = self._clock()
        try:
            for epoch in range(done, self.epochs):
                unread.append((yield from self._epoch(epoch, steps)))
                while len(unread) > (0 if is_stopping() else ahead):
                    yield from self._read(unread.popleft())
                if self._is_checkpoint_due(epoch, saved):
                    while unread:
                        yield from self._read(unread.popleft())
                    saved = self._checkpoint(epoch)
            while unread:
                yield from self._read(unread.popleft())
            if self.checkpoints is not None:
                self.checkpoints.wait()
        finally:
            self.callback.on_train_end()
            self.method.requires_grad_(True)
            if self.checkpoints is not None:
                with suppress(CannotWrite):  # it was raised above, or something worse is on its way
                    self.checkpoints.wait()
        self.method.load_state_dict(self.best.weights)
        self.method.eval()

    def new_steps(self) -> Steps:
        """The steps of training, eager or replayed, which draw from the method's present generators."""
        if not self.replay:
            return EagerSteps(self.stepper, self.batches)
        return ReplayedSteps(self.stepper, self.batches, self.capture)

    def _epoch(self, epoch: int, steps: Steps) -> Generator[Event, None, "EpochResult"]:
        """Launch the steps of an epoch, its evaluation, and copies of what came out."""
        self.stepper.set_learning_rates(epoch)
        for _ in steps.epoch(epoch, self.settings.epochs):
            self.callback.on_step_end()
            yield None
            if is_overdue():
                raise Stopped("stopped in the middle of an epoch, for its end was too far away")
        unaveraged = torch.zeros(0)
        if self.stepper.average is not None:  # the weights of the last step, to show what averaging gains
            self.evaluation.run()
            unaveraged = self.evaluation.scores.clone()
        with self._scored_weights():
            self.evaluation.run()
            self.callback.on_evaluation_end(epoch, self.evaluation.logits)
            self.best.offer(epoch, epoch + 1 == self.epochs, self.evaluation.scores)
        log = steps.log()
        copy = HostCopy(self.evaluation.scores, unaveraged, self.evaluation.finite, log.values)
        return EpochResult(epoch, log.names, copy)

    def _scored_weights(self) -> AbstractContextManager[None]:
        """Context in which the model has the weights that are scored and saved: its own, or their average."""
        return nullcontext() if self.stepper.average is None else self.stepper.average.applied()

    def _read(self, result: "EpochResult") -> Iterator[Event]:
        """Append an epoch to the curves, once its results have arrived."""
        while not result.copy.has_arrived:
            if is_overdue():
                raise Stopped("stopped while the device was at work, for it would take too long")
            yield result.copy.event
        scores, unaveraged, finite, values = result.copy.tensors()
        losses = self._mean_losses(LossLog(result.names, values), result.epoch)
        self._check_parameters(finite, result.epoch)
        names = [name for name in losses if name.startswith(DIAGNOSTICS)]
        diagnostics = {name.removeprefix(DIAGNOSTICS): losses.pop(name) for name in names}
        row: dict[str, Any] = {"epoch": result.epoch, "loss": losses, "diagnostics": diagnostics}
        row |= self.evaluation.by_part(scores)
        if len(unaveraged):
            row["unaveraged"] = self.evaluation.by_part(unaveraged)
        self.curves.append(row)
        now = self._clock()
        self.seconds.append(now - self._last_read)
        self._last_read = now
        self.callback.on_epoch_end(row, self.splits.schema.task.metric)
        if self.capture.refusal and len(self.seconds) == 1:
            say(f"Steps are taken one by one, for they cannot be captured: {self.capture.refusal}", "yellow")

    def _is_checkpoint_due(self, epoch: int, saved: float) -> bool:
        """Whether the epoch ends with a checkpoint: so many epochs have passed, or a minute, or training must stop."""
        if self.checkpoints is None:
            return False
        every = self.settings.checkpoint_every
        due = time.monotonic() - saved >= CHECKPOINT_SECONDS if every is None else (epoch + 1) % every == 0
        return due or self._must_stop(epoch)

    def _must_stop(self, epoch: int) -> bool:
        """Whether training should stop after this epoch; after the last one it is over anyway."""
        return is_stopping() and epoch + 1 < self.epochs

    def _checkpoint(self, epoch: int) -> float:
        """Write a checkpoint while training goes on; raises `Stopped` if it should not. Returns the time."""
        assert self.checkpoints is not None
        self.checkpoints.save_in_background(epoch + 1, self._snapshot())
        if self._must_stop(epoch):
            self.checkpoints.wait()
            raise Stopped(f"stopped after epoch {epoch}, with a checkpoint")
        return time.monotonic()

    def _mean_losses(self, log: LossLog, epoch: int) -> dict[str, float]:
        """Mean of each term over the epoch; the first value that is not finite raises `Diverged`."""
        values: dict[str, list[float]] = {}
        rows = zip(log.names, log.values.tolist(), strict=True)
        for step, (names, row) in enumerate(rows, epoch * len(self.batches)):
            for name, value in zip(names, row, strict=False):
                if not math.isfinite(value):
                    self._diverged(name, step)
                values.setdefault(name, []).append(value)
        return {name: math.fsum(terms) / len(terms) for name, terms in values.items()}

    def _check_parameters(self, finite: Tensor, epoch: int) -> None:
        """Raise `Diverged` if a parameter is not finite: a loss can be finite and its gradient not."""
        if not bool(finite.all()):
            names = [name for name, _ in self.method.named_parameters()]
            part = names[finite.tolist().index(False)].partition(".")[0]
            self._diverged(f"of {part} (its gradient)", (epoch + 1) * len(self.batches) - 1)

    def _diverged(self, term: str, step: int) -> None:
        if self.checkpoints is not None:
            self.checkpoints.wait()
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
            "best": self.best.weights,
            "average": {} if self.stepper.average is None else self.stepper.average.state_dict(),
            "random": random_state(self.device, self.method),
        }
        tensors = {f"{group}.{name}": tensor for group, named in groups.items() for name, tensor in named.items()}
        return Snapshot(tensors, {"curves": self.curves, "seconds": self.seconds, "device": self.device.type})
