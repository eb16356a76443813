"""What a method is: a network, what it minimises, and who moves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from outland.errors import OutlandError
from outland.graphs import GraphBatch, PackedGraphs, Schema
from outland.methods.parts.risk import mean_risk
from outland.nn import BackboneSettings, Dropout, Mask, Seeds
from outland.settings import check_ranges

Terms = dict[str, Tensor]
Schedule = Literal["cosine", "constant"]


@dataclass(frozen=True)
class Progress:
    """How far training is; schedules are functions of it. Epochs and steps count from 0.

    A loss asks by `scalar` and `branch` and not by looking at the fields: a step that was captured once is replayed in
    later epochs, and what was asked is then asked again.
    """

    epoch: int = 0
    epochs: int = 1
    step: int = 0

    def scalar(self, schedule: Callable[["Progress"], float]) -> float | Tensor:
        """What a schedule says now."""
        return schedule(self)

    def branch(self, condition: Callable[["Progress"], bool]) -> bool:
        """What a condition says now."""
        return condition(self)


@dataclass(frozen=True)
class Phase:
    """One move of a training step: these parameters go down this loss.

    Args:
        name: for logs and gradient tests.
        moves: modules whose parameters are optimised, and which are in training mode; all others stand still in
            evaluation mode, so that their dropout is off and their batch norm statistics stay as they are.
        loss: named terms, whose sum is minimised.
        lr: learning rate.
        weight_decay, schedule: the run's, unless the phase has its own.
        when: whether the phase runs in this step; by default in every one.
    """

    name: str
    moves: tuple[nn.Module, ...]
    loss: Callable[[GraphBatch, Progress], Terms]
    lr: float
    weight_decay: float | None = None
    schedule: Schedule | None = None
    when: Callable[[Progress], bool] = field(default=lambda progress: True)

    def parameters(self) -> list[nn.Parameter]:
        """The parameters that move."""
        return [parameter for module in self.moves for parameter in module.parameters()]


@dataclass(frozen=True)
class MethodSettings:
    """Hyper-parameters that every method has.

    Args:
        lr: learning rate.
    """

    lr: float = 1e-3

    def __post_init__(self) -> None:
        check_ranges(self, "method", lr=(0, None))


class Method(nn.Module):
    """A way to train a graph classifier. Subclasses tell their whole story in one file.

    A method builds its modules from the schema and the backbone's settings, writes its `loss` (or several, and lists
    the `phases` that lower them), and answers `forward` with logits. It writes no loop, no optimiser call and no
    `.item()`; random numbers of its own come from `self.random`, which is seeded and saved with the run.

    Attributes:
        name: on the command line and in tables.
        family: the paper's grouping, for tables.
        citation: authors, venue, year.
        needs_environments: whether every training graph must have an environment.
        Settings: dataclass of its hyper-parameters.
        presets: named settings: `method:preset` on the command line.
        space: values to search for each hyper-parameter.
        training_only: sub-modules that inference does not use.
        update: `sequential` phases each start from what the last one moved; `simultaneous` ones all take their
            gradient at the same point before any of them moves.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    citation: ClassVar[str]
    needs_environments: ClassVar[bool] = False
    Settings: ClassVar[type[MethodSettings]] = MethodSettings
    presets: ClassVar[Mapping[str, Callable[[], MethodSettings]]] = {}
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    training_only: ClassVar[tuple[str, ...]] = ()
    update: Literal["sequential", "simultaneous"] = "sequential"

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: MethodSettings | None = None) -> None:
        super().__init__()
        self.schema, self.backbone = schema, backbone
        self.settings: Any = settings if settings is not None else self.Settings()
        self.random, self.dropout_random = torch.Generator(), torch.Generator()
        self.seeds = Seeds(self.dropout_random)
        if self.needs_environments and schema.environments < 2:
            raise OutlandError(
                f"{self.name} needs at least two training environments and these graphs have {schema.environments}: "
                "give every graph an `environment`, or take a dataset or split that has them"
            )

    def prepare(self, graphs: PackedGraphs, train: Tensor, seed: int) -> None:
        """Look at the training graphs once, before the first step; most methods need not."""

    def phases(self) -> list[Phase]:
        """The moves of one training step, in order; unless a method says otherwise, all of it goes down `loss`."""
        return [Phase("risk", (self,), self.loss, self.settings.lr)]

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Named terms whose sum is minimised, for a method of one phase."""
        raise NotImplementedError

    def watch(self) -> Terms:
        """Numbers of the last step that are recorded beside its losses and not minimised; most methods have none."""
        return {}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits `[B, outputs]`, as at inference."""
        raise NotImplementedError

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """What the method looks at, where it can say: symmetric masks by name, `stable` first."""
        raise OutlandError(f"{self.name} has no masks: it looks at whole graphs")

    def risk(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Mean loss over the labelled entries of the real graphs."""
        return mean_risk(logits, batch, self.schema.task)

    def parameter_counts(self) -> dict[str, int]:
        """Parameters in all, at inference, and of each part."""
        parts = {name: sum(p.numel() for p in part.parameters()) for name, part in self.named_children()}
        total = sum(p.numel() for p in self.parameters())
        unused = sum(parts.get(name, 0) for name in self.training_only)
        return {"total": total, "inference": total - unused, **parts}

    def reseed(self, seed: int, device: torch.device) -> None:
        """Start the random numbers of training afresh, on the device it works on.

        Initial weights, the method's own draws and dropout have a stream each, so that two methods that differ only in
        their draws can be compared with the same dropout.
        """
        self.random = torch.Generator(device).manual_seed(seed + 2**32)
        self.dropout_random = torch.Generator(device).manual_seed(seed + 2**33)
        self.seeds = Seeds(self.dropout_random)
        for part in self.modules():
            if isinstance(part, Dropout):
                part.random, part.seeds = self.dropout_random, self.seeds
