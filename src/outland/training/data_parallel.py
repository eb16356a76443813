r"""One model trained by several processes at once, as `torchrun` starts them: each takes its part of every batch.

A step gives what one process gives with the whole batch: gradients are averaged in each phase, weighted by the graphs
they come from, and mean risks and risks by environment are taken over the whole batch. What a method compares within a
batch (pairs, contrasts, weights) it compares within a process's part. Batch norm sees the part too, unless it is
synchronised.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from outland.distributed import all_reduce_sum, rank, world_size
from outland.errors import OutlandError
from outland.graphs import Batches, GraphBatch
from outland.graphs.batches import EpochPlan
from outland.nn import BatchNorm


class DistributedBatches(Batches):
    """This process's part of each batch; the parts of all processes together are the batches of one process.

    Environments take turns in a balanced batch, and a part is a contiguous slice, so it is balanced as well. A last
    batch with fewer graphs than there are processes is left out.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.size % world_size():
            raise OutlandError(f"train.batch_size ({self.size}) must be a multiple of the {world_size()} processes")

    def __len__(self) -> int:
        rest = len(self.index) % self.size
        return math.ceil(len(self.index) / self.size) - (1 if 0 < rest < world_size() else 0)

    def plan(self, number: int) -> EpochPlan:
        """The plan of epoch `number`, of this process's parts only."""
        whole = super().plan(number)
        width, index = self.size // world_size(), []
        for row, graphs in zip(whole.index, whole.graphs, strict=True):
            part = row[rank() * graphs // world_size() : (rank() + 1) * graphs // world_size()]
            index.append(nn.functional.pad(part, (0, width - len(part)), value=-1))
        return self.plan_of(torch.stack(index))


def loss_weight(batch: GraphBatch, like: Tensor) -> Tensor:
    """Weight of this process's losses: its graphs × processes / all graphs; 1 where all parts are equally large."""
    graphs = like.new_tensor(float(batch.num_graphs)) if batch.graph_mask is None else batch.graph_mask.sum().to(like)
    return graphs * world_size() / all_reduce_sum(graphs)


def describe_parallelism(model: nn.Module) -> dict[str, str]:
    """World size and the kind of batch norm, for a record; empty in a single process."""
    if world_size() == 1:
        return {}
    synced = any(isinstance(module, BatchNorm) and module.synchronized for module in model.modules())
    return {"processes": str(world_size()), "batch norm": "synchronised" if synced else "by process"}
