"""What a method is: a network, the losses it minimises, and the modules that each loss trains."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, cast, get_args

import torch
from torch import Tensor, nn
from typing_extensions import TypeVar

from outland.errors import OutlandError
from outland.graphs import GraphBatch, PackedGraphs, Schema
from outland.methods.parts.risk import mean_risk
from outland.nn import BackboneSettings, Dropout, GraphNet, Mask
from outland.ops import DropoutSeeds
from outland.settings import NonNegative, settings

Terms = dict[str, Tensor]
Schedule = Literal["cosine", "constant"]


@dataclass(frozen=True)
class Progress:
    """Epoch and step of training, both from 0, which schedules are functions of.

    A loss calls `scalar` and `branch` and does not read the fields: a step that was captured once is replayed in later
    epochs, and the schedules and conditions are then evaluated again.
    """

    epoch: int = 0
    epochs: int = 1
    step: int = 0

    def scalar(self, schedule: Callable[["Progress"], float]) -> float | Tensor:
        """The schedule's value now."""
        return schedule(self)

    def branch(self, condition: Callable[["Progress"], bool]) -> bool:
        """Whether the condition holds now."""
        return condition(self)


@dataclass(frozen=True)
class Phase:
    """One optimizer step of a training step: these modules descend this loss.

    Args:
        name: for logs and gradient tests.
        modules: those whose parameters are optimised; they are in training mode. All others are in evaluation mode, so
            that their dropout is off and their batch norm statistics stay as they are.
        loss: named terms, whose sum is minimised.
        lr: learning rate.
        weight_decay, schedule: the run's, unless the phase has its own.
        when: whether the phase runs in this step; by default in every one.
    """

    name: str
    modules: tuple[nn.Module, ...]
    loss: Callable[[GraphBatch, Progress], Terms]
    lr: float
    weight_decay: float | None = None
    schedule: Schedule | None = None
    when: Callable[[Progress], bool] = field(default=lambda progress: True)

    def parameters(self) -> list[nn.Parameter]:
        """The parameters that are optimised."""
        return [parameter for module in self.modules for parameter in module.parameters()]


@dataclass(frozen=True)
class NodeInputs:
    """Vectors `[N, d]` that enter the first layer in place of the embedded node features."""

    x: Tensor


@dataclass(frozen=True)
class GraphEmbeddings:
    """Vectors `[B, d]` of whole graphs, and their labels `[B, ...]`."""

    z: Tensor
    y: Tensor


Augmented = Mask | NodeInputs | GraphEmbeddings | PackedGraphs


@settings("method")
class MethodSettings:
    """Hyper-parameters that every method has.

    Args:
        lr: learning rate.
    """

    lr: NonNegative = 1e-3


S = TypeVar("S", bound=MethodSettings, covariant=True, default=MethodSettings)


class Method(nn.Module, Generic[S]):
    """A way to train a graph classifier, in one file: `class Yours(Method[YoursSettings])`.

    A method builds its modules from the schema and the backbone's settings and writes its `loss` (or several, and lists
    the `phases` that lower them). Predictions are those of `self.classifier` on whole graphs, unless it writes a
    `readout` or an `embed` of its own. It writes no loop, no optimizer call and no `.item()`; random numbers of its own
    come from `self.random`, which is seeded and saved with the run.

    Attributes:
        name: on the command line and in tables.
        family: the paper's grouping, for tables.
        citation: authors, venue, year.
        needs_environments: whether every training graph must have an environment.
        Settings: dataclass of its hyper-parameters: the type argument, unless it is given.
        presets: named settings: `method:preset` on the command line.
        space: values to search for each hyper-parameter.
        training_only: sub-modules that inference does not use.
        update: `sequential` phases each start from what the last one moved; `simultaneous` ones all take their
            gradient at the same point before any of them moves.
        has_masks: whether `masks` gives a `stable` mask; true where a class writes `masks`.
        mask_depth: message-passing layers that mix neighbours before the masks act; 0 where these act on the input.
        mask_graphs: graphs of a part whose masks are scored after training, where one takes many passes; None: all.
        augments: whether it trains on augmented graphs; true where a class writes `augment`.
        learns_augmentation: whether what `augment` gives depends on weights that training changes.
        augmented_together: graphs a call of `augment`, where it mixes the graphs of a batch.
        classifier: the network f, for the methods that have one such.
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
    has_masks: bool = False
    mask_depth: int = 0
    mask_graphs: ClassVar[int | None] = None
    augments: ClassVar[bool] = False
    learns_augmentation: ClassVar[bool] = False
    augmented_together: ClassVar[int] = 128
    classifier: GraphNet

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        for base in vars(cls).get("__orig_bases__", ()):
            if get_args(base) and "Settings" not in vars(cls):
                (argument,) = get_args(base)
                cls.Settings = getattr(argument, "__bound__", argument)  # a variable stands for its bound
        cls.has_masks = cls.masks is not Method.masks
        cls.augments = cls.augment is not Method.augment

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: S | None = None) -> None:
        super().__init__()
        self.schema, self.backbone = schema, backbone
        self.settings: S = cast(S, self.Settings()) if settings is None else settings
        self.random, self.dropout_random = torch.Generator(), torch.Generator()
        self.seeds = DropoutSeeds(self.dropout_random)
        if self.needs_environments and schema.environments < 2:
            raise OutlandError(
                f"{self.name} needs at least two training environments and these graphs have {schema.environments}: "
                "give every graph an `environment`, or take a dataset or split that has them"
            )

    def prepare(self, graphs: PackedGraphs, train: Tensor, seed: int) -> None:
        """Read the training graphs once, before the first step; most methods need not."""

    def phases(self) -> list[Phase]:
        """The phases of one training step, in order; by default one in which all modules descend `loss`."""
        return [Phase("risk", (self,), self.loss, self.settings.lr)]

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Named terms whose sum is minimised, for a method of one phase."""
        raise NotImplementedError

    def barred_epochs(self, epochs: int) -> int:
        """How many of the first `epochs` may not be selected, for the method is not yet itself in them."""
        return 0

    def diagnostics(self) -> Terms:
        """Scalars of the last step that are recorded beside its losses and not minimised; most methods have none."""
        return {}

    def readout(self, batch: GraphBatch) -> Tensor:
        """Graph embeddings `[B, d]` that the head reads at inference."""
        return self.classifier.embed(batch)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Input of the last linear layer `[B, d]` at inference: `readout`, after the head's hidden layer if any."""
        if type(self).forward is not Method.forward:
            raise OutlandError(
                f"{self.name} has a forward(batch) of its own and no embeddings: write embed(batch), which gives the "
                "input of its last layer, and to_logits(embeddings) instead"
            )
        return self.classifier.head.hidden(self.readout(batch), batch)

    def to_logits(self, embeddings: Tensor) -> Tensor:
        """Logits `[B, outputs]` from what `embed` gives: the last linear layer."""
        logits: Tensor = self.classifier.head.linear(embeddings)
        return logits

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits `[B, outputs]`, as at inference."""
        return self.to_logits(self.embed(batch))

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """Symmetric masks by name, `stable` first: the parts of each graph that the method tells apart."""
        raise OutlandError(f"{self.name} has no masks: it looks at whole graphs")

    def augment(self, batch: GraphBatch) -> Augmented:
        """The augmented form of a batch that training meets: weights, node inputs, embeddings, or synthetic graphs."""
        raise OutlandError(f"{self.name} does not augment graphs: there is no shift to measure")

    def unaugmented(self, batch: GraphBatch) -> NodeInputs | GraphEmbeddings | None:
        """The batch in the space in which `augment` changes it; None where that is the graphs themselves."""
        return None

    def risk(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """Mean loss over the labelled entries of the real graphs."""
        return mean_risk(logits, batch, self.schema.task)

    def parameter_counts(self) -> dict[str, int]:
        """Number of parameters in all, at inference, and of each sub-module."""
        counts = {name: sum(p.numel() for p in module.parameters()) for name, module in self.named_children()}
        total = sum(p.numel() for p in self.parameters())
        unused = sum(counts.get(name, 0) for name in self.training_only)
        return {"total": total, "inference": total - unused, **counts}

    def reseed(self, seed: int, device: torch.device) -> None:
        """Seed the random numbers of training anew, on the device it runs on.

        Initial weights, the method's own draws and dropout have a generator each, so that two methods that differ only
        in their draws can be compared with the same dropout.
        """
        self.random = torch.Generator(device).manual_seed(seed + 2**32)
        self.dropout_random = torch.Generator(device).manual_seed(seed + 2**33)
        self.seeds = DropoutSeeds(self.dropout_random)
        for module in self.modules():
            if isinstance(module, Dropout):
                module.generator, module.seeds = self.dropout_random, self.seeds


def warm_up_epochs(share: float, epochs: int) -> int:
    """How many of the first `epochs` are a warm-up of this share of them, rounded up."""
    return math.ceil(share * epochs - 1e-9)
