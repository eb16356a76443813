"""The steps of an epoch: taken one by one, or recorded once for each shape of batch and replayed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import Batches, Shape
from outland.methods import Progress
from outland.training.replay import Body, Questions, Recorder
from outland.training.stepper import Stepper

Row = dict[str, float]
_MOST_TERMS = 32


class Steps(Protocol):
    """Takes the steps of epochs and tells their losses."""

    def epoch(self, epoch: int, epochs: int) -> Iterator[None]:
        """Take the steps of an epoch, pausing after each; nothing is read from the device."""

    def log(self) -> list[Row]:
        """The loss terms of each step of the epoch, read from the device at once."""


class EagerSteps:
    """Step by step.

    Args:
        stepper: who takes them.
        batches: of the training graphs.
    """

    def __init__(self, stepper: Stepper, batches: Batches) -> None:
        self.stepper, self.batches = stepper, batches
        self._log: list[dict[str, Tensor]] = []

    def epoch(self, epoch: int, epochs: int) -> Iterator[None]:
        """Take the steps of an epoch."""
        self._log = []
        first = epoch * len(self.batches)
        for place, batch in enumerate(self.batches.epoch(epoch)):
            self._log.append(self.stepper.step(batch, Progress(epoch, epochs, first + place)))
            yield

    def log(self) -> list[Row]:
        """The loss terms of each step."""
        values = iter(torch.stack([term.double() for terms in self._log for term in terms.values()]).tolist())
        return [{name: next(values) for name in terms} for terms in self._log]


@dataclass
class Recorded:
    """A step on batches of one shape, for as long as its conditions hold."""

    body: Body
    questions: Questions
    names: list[str]


class ReplayedSteps:
    """Steps that are recorded and replayed, the cutting of the batch included.

    The order of an epoch lies on the device, and so does the number of the step: a replay takes the next batch by
    itself, without a word from the host. Batches are padded to a few shapes, and each has its own recording.

    Args:
        stepper: who takes the steps.
        batches: of the training graphs.
        recorder: of this run.
    """

    def __init__(self, stepper: Stepper, batches: Batches, recorder: Recorder) -> None:
        self.stepper, self.batches, self.recorder = stepper, batches, recorder
        device = batches.graphs.device
        self.order = torch.full((len(batches), batches.size), -1, dtype=torch.long, device=device)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.values = torch.zeros(len(batches), _MOST_TERMS, dtype=torch.double, device=device)
        self.recorded: dict[Shape, list[Recorded]] = {}
        self._taken: list[Recorded] = []

    def epoch(self, epoch: int, epochs: int) -> Iterator[None]:
        """Take the steps of an epoch."""
        plan = self.batches.plan(epoch)
        index = plan.index.pin_memory() if self.order.is_cuda else plan.index  # so that nobody waits for the copy
        self.order.copy_(index, non_blocking=True)
        self.place.zero_()
        self._taken = []
        first = epoch * len(self.batches)
        for step, (nodes, edges) in enumerate(zip(plan.nodes, plan.edges, strict=True), first):
            now = Progress(epoch, epochs, step)
            recorded = self._find(self.batches.shapes.holding(nodes, edges), now)
            recorded.questions.follow(now)
            recorded.body()
            self._taken.append(recorded)
            yield

    def log(self) -> list[Row]:
        """The loss terms of each step."""
        rows = self.values.tolist()
        return [dict(zip(taken.names, row, strict=False)) for taken, row in zip(self._taken, rows, strict=True)]

    def _find(self, shape: Shape, now: Progress) -> Recorded:
        """A recording that holds now, or a new one."""
        for recorded in self.recorded.get(shape, []):
            if recorded.questions.hold(now):
                return recorded
        recorded = self._record(shape, now)
        self.recorded.setdefault(shape, []).append(recorded)
        return recorded

    def _record(self, shape: Shape, now: Progress) -> Recorded:
        questions = Questions(now, self.order.device)
        names: list[str] = []

        def body() -> None:
            questions.rewind()
            index = self.order.index_select(0, self.place)[0]
            batch = self.batches.gatherer.padded(index, shape)
            terms = self.stepper.step(batch, cast(Progress, questions))  # they answer as progress does
            names[:] = list(terms)
            if len(names) > _MOST_TERMS:
                raise OutlandError(f"a step with more than {_MOST_TERMS} loss terms cannot be recorded")
            row = torch.stack(list(terms.values())).double()
            self.values[:, : len(terms)].index_copy_(0, self.place, row[None])
            self.place.add_(1)

        with self.stepper.rehearsal(self.place, self.values):
            body()  # creates the optimisers' state and chooses algorithms; what it did is undone
        return Recorded(self.recorder.record(body), questions, names)
