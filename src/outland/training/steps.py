"""The steps of an epoch: taken one by one, or captured once for each shape of batch and replayed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from outland.errors import OutlandError
from outland.graphs import Batches, BatchShape
from outland.methods import Progress
from outland.training.capture import CapturedProgress, GraphCapture, Program
from outland.training.stepper import Stepper

_MAX_TERMS = 32


class LossLog(NamedTuple):
    """The loss terms of the steps of an epoch."""

    names: list[list[str]]  # of each step's terms
    values: Tensor  # of each step [steps, terms], in that order; on the device until it is copied


class Steps(Protocol):
    """Takes the steps of epochs and logs their losses."""

    def epoch(self, epoch: int, epochs: int) -> Iterator[None]:
        """Take the steps of an epoch, pausing after each; nothing is read from the device."""

    def log(self) -> LossLog:
        """The loss terms of each step of the epoch, still on the device."""


class EagerSteps:
    """Steps taken one by one.

    Args:
        stepper: takes them.
        batches: of the training graphs.
    """

    def __init__(self, stepper: Stepper, batches: Batches) -> None:
        self.stepper, self.batches = stepper, batches
        self._log: list[dict[str, Tensor]] = []

    def epoch(self, epoch: int, epochs: int) -> Iterator[None]:
        """Take the steps of an epoch."""
        self._log = []
        for step, batch in enumerate(self.batches.epoch(epoch), epoch * len(self.batches)):
            self._log.append(self.stepper.step(batch, Progress(epoch, epochs, step)))
            yield

    def log(self) -> LossLog:
        """The loss terms of each step."""
        rows = [torch.stack([term.double() for term in terms.values()]) for terms in self._log]
        return LossLog([list(terms) for terms in self._log], pad_sequence(rows, batch_first=True))


@dataclass
class CapturedStep:
    """A step on batches of one shape, to be replayed while `progress` is valid; `names` are those of its terms."""

    replay: Program
    progress: CapturedProgress
    names: list[str]


class ReplayedSteps:
    """Steps that are captured and replayed, the gathering of the batch included.

    The order of an epoch lies on the device, and so does the number of the step: a replay takes the next batch by
    itself, without a transfer from the host. Batches are padded to a few shapes, and each has its own capture.

    Args:
        stepper: takes the steps.
        batches: of the training graphs.
        capture: of this run.
    """

    def __init__(self, stepper: Stepper, batches: Batches, capture: GraphCapture) -> None:
        self.stepper, self.batches, self.capture = stepper, batches, capture
        device = batches.graphs.device
        self.order = torch.full((len(batches), batches.size), -1, dtype=torch.long, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.values = torch.zeros(len(batches), _MAX_TERMS, dtype=torch.double, device=device)
        self.captured: dict[BatchShape, list[CapturedStep]] = {}
        self._taken: list[CapturedStep] = []

    def epoch(self, epoch: int, epochs: int) -> Iterator[None]:
        """Take the steps of an epoch."""
        plan = self.batches.plan(epoch)
        index = plan.index.pin_memory() if self.order.is_cuda else plan.index  # so that nothing waits for the copy
        self.order.copy_(index, non_blocking=True)
        self.position.zero_()
        self._taken = []
        first = epoch * len(self.batches)
        for step, (nodes, edges) in enumerate(zip(plan.nodes, plan.edges, strict=True), first):
            now = Progress(epoch, epochs, step)
            captured = self._find(self.batches.shapes.holding(nodes, edges), now)
            captured.progress.update(now)
            captured.replay()
            self._taken.append(captured)
            yield

    def log(self) -> LossLog:
        """The loss terms of each step."""
        return LossLog([step.names for step in self._taken], self.values)

    def _find(self, shape: BatchShape, now: Progress) -> CapturedStep:
        """A captured step of this shape that is valid now, or a new one."""
        for step in self.captured.get(shape, []):
            if step.progress.is_valid(now):
                return step
        step = self.capture_step(shape, now)
        self.captured.setdefault(shape, []).append(step)
        return step

    def capture_step(self, shape: BatchShape, now: Progress) -> CapturedStep:
        """Capture a step on batches of `shape`."""
        progress = CapturedProgress(now, self.order.device)
        names: list[str] = []

        def program() -> None:
            progress.rewind()
            index = self.order.index_select(0, self.position)[0]
            batch = self.batches.gatherer.padded(index, shape)
            terms = self.stepper.step(batch, cast(Progress, progress))
            names[:] = list(terms)
            if len(names) > _MAX_TERMS:
                raise OutlandError(f"a step with more than {_MAX_TERMS} loss terms cannot be captured")
            row = torch.stack(list(terms.values())).double()
            self.values[:, : len(terms)].index_copy_(0, self.position, row[None])
            self.position.add_(1)

        with self.stepper.rollback(self.position, self.values) as drawn:
            program()  # creates the optimizers' state and chooses algorithms
        return CapturedStep(self.capture.capture(program, drawn), progress, names)
