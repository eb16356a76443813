r"""One model trained by several processes at once, as `torchrun` starts them: each takes its part of every batch.

A step gives what one process gives with the whole batch: gradients are averaged in each phase, weighted by the graphs
they come from, and mean risks and risks by environment are taken over the whole batch. What a method compares within a
batch (pairs, contrasts, weights) it compares within a process's part. Batch norm sees the part too, unless it is
synchronised.
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed, nn

from outland.distributed import all_reduce_sum, rank, world_size
from outland.errors import OutlandError
from outland.graphs import Batches, GraphBatch
from outland.graphs.batches import Plan
from outland.nn import Dropout
from outland.nn.norm import BatchNorm, then


def started_by_torchrun() -> bool:
    """Whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def leads() -> bool:
    """Whether this process is the one that speaks and writes."""
    return int(os.environ.get("RANK", "0")) == 0


@contextmanager
def together(device: torch.device) -> Iterator[None]:
    """Meanwhile, the processes know each other."""
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
    try:
        yield
    finally:
        distributed.destroy_process_group()


class PartBatches(Batches):
    """The part of each batch that this process takes; all parts together are the batches of one process.

    Environments are dealt in turn to the places of a balanced batch, and a part is a run of places, so it is balanced
    as well. A last batch with fewer graphs than there are processes is left out.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if self.size % world_size():
            raise OutlandError(f"train.batch_size ({self.size}) must be a multiple of the {world_size()} processes")

    def __len__(self) -> int:
        rest = len(self.index) % self.size
        return math.ceil(len(self.index) / self.size) - (1 if 0 < rest < world_size() else 0)

    def plan(self, number: int) -> Plan:
        """What the parts of one epoch will hold."""
        whole = super().plan(number)
        width, index = self.size // world_size(), []
        for row, graphs in zip(whole.index, whole.graphs, strict=True):
            part = row[rank() * graphs // world_size() : (rank() + 1) * graphs // world_size()]
            index.append(nn.functional.pad(part, (0, width - len(part)), value=-1))
        return self._plan(torch.stack(index))


def share_of(batch: GraphBatch, like: Tensor) -> Tensor:
    """What this process's part of the batch counts for: 1 where all parts are equally large."""
    own = like.new_tensor(float(batch.num_graphs)) if batch.graph_mask is None else batch.graph_mask.sum().to(like)
    return own * world_size() / all_reduce_sum(own)


def average(gradients: list[Tensor]) -> list[Tensor]:
    """The mean of gradients over the processes, in one message."""
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    distributed.all_reduce(flat)
    flat /= world_size()
    pieces = flat.split([gradient.numel() for gradient in gradients])
    return [piece.view_as(gradient) for piece, gradient in zip(pieces, gradients, strict=True)]


class SyncedBatchNorm(BatchNorm):
    """Batch norm over the rows of all processes."""

    def forward(
        self, x: Tensor, mask: Tensor | None = None, relu: bool = False, dropout: Dropout | None = None
    ) -> Tensor:
        """As `BatchNorm`."""
        if not self.training:
            return super().forward(x, mask, relu, dropout)
        wide = x.to(self.weight.dtype)
        real = wide.new_ones(len(x), 1) if mask is None else mask[:, None].to(wide.dtype)
        count = all_reduce_sum(real.sum()).clamp(min=1)
        mean = all_reduce_sum((wide * real).sum(0)) / count
        centred = (wide - mean) * real
        variance = all_reduce_sum(centred.square().sum(0)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
        found = (centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias).to(x.dtype)
        return then(found, relu, dropout)


def togetherness(model: nn.Module) -> dict[str, str]:
    """What a record says of training together; nothing where a process was alone."""
    if world_size() == 1:
        return {}
    synced = any(isinstance(module, SyncedBatchNorm) for module in model.modules())
    return {"processes": str(world_size()), "batch norm": "synchronised" if synced else "by process"}


def synchronise_norms(model: nn.Module) -> None:
    """Let every batch norm of a model see the rows of all processes; its weights stay as they are."""
    for module in model.modules():
        if type(module) is BatchNorm:
            module.__class__ = SyncedBatchNorm
