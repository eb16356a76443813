"""How long a run trains, in what batches and by which schedule; the same for every method."""

import math
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field

from outland.graphs import Layout
from outland.methods import Schedule
from outland.settings import NonNegative, PositiveInt, settings

Precision = Literal["tf32", "float32", "bf16"]
_FEWEST_EPOCHS, _MOST_EPOCHS = 4, 40  # where they follow from `total_samples`


@settings("train")
class TrainSettings:
    """The frame of a run.

    Args:
        epochs: passes over the training graphs.
        total_samples: training graphs drawn in all epochs together; where it is given, `epochs` follows from it, from
            4 to 40.
        batch_size: graphs a step.
        eval_batch_size: graphs a batch when scoring; by default 64 on a CPU, whose caches hold no more, else 2048.
        weight_decay: L2, inside Adam.
        schedule: of every learning rate, by epoch: `cosine` to 0, or `constant`.
        burn_in: share of the epochs, from the start, that are never selected.
        select: rule by which the saved model is chosen.
        balance: equal numbers of each environment in every batch.
        class_balance: draw rare classes as often as the others, a graph at most ten times an epoch; probabilities are
            corrected for it. For one classification target.
        layout: of the training batches.
        precision: of matrix products: `tf32` where a GPU offers it, `float32`, or `bf16` for whole layers.
        average: score and keep a moving average of the weights instead of the weights themselves, with this share of
            the old at each step, as 0.999; 0 has none.
        checkpoint_every: epochs between checkpoints; by default one is written when a minute has passed.
    """

    epochs: PositiveInt = 100
    total_samples: PositiveInt | None = None
    batch_size: PositiveInt = 32
    eval_batch_size: PositiveInt | None = None
    weight_decay: NonNegative = 5e-6
    schedule: Schedule = "cosine"
    burn_in: Annotated[float, Field(ge=0, le=0.99)] = 0.0
    select: Literal["ood_val", "id_val", "last_epoch"] = "ood_val"
    balance: bool = False
    class_balance: bool = False
    layout: Layout = "exact"
    precision: Precision = "tf32"
    average: Annotated[float, Field(ge=0, le=0.999999)] = 0.0
    checkpoint_every: PositiveInt | None = None

    def with_epochs_for(self, samples: int) -> "TrainSettings":
        """The settings with `epochs` spelled out, for so many training graphs an epoch."""
        if self.total_samples is None:
            return self
        epochs = min(max(round(self.total_samples / samples), _FEWEST_EPOCHS), _MOST_EPOCHS)
        return replace(self, epochs=epochs, total_samples=None)

    def lr_factor(self, epoch: int, schedule: Schedule | None = None) -> float:
        """What learning rates are multiplied by in an epoch, counted from 0; a phase may have its own schedule."""
        if (schedule or self.schedule) == "constant":
            return 1.0
        return (1 + math.cos(math.pi * epoch / self.epochs)) / 2

    def scoring_batch(self, device: torch.device) -> int:
        """Graphs a batch when scoring on a device."""
        return self.eval_batch_size or (64 if device.type == "cpu" else 2048)

    def burn_in_epochs(self) -> int:
        """How many epochs at the start are never selected."""
        return int(self.burn_in * self.epochs + 1e-9)
