"""Sums over the processes that train one model together; of a single process, the value itself."""

from typing import Any

import torch
from torch import Tensor, distributed


def world_size() -> int:
    """Number of processes that train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Rank of this process, from 0."""
    return distributed.get_rank() if world_size() > 1 else 0


def all_reduce_sum(values: Tensor) -> Tensor:
    """The sum of `values` over all processes, with gradients to all of them."""
    total: Tensor = _AllReduceSum.apply(values) if world_size() > 1 else values  # type: ignore[no-untyped-call]
    return total


class _AllReduceSum(torch.autograd.Function):
    """All-reduce forward and backward: each process's values are in the losses of all."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        """The sum."""
        total = values.detach().clone().contiguous()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, *grads: Tensor) -> Any:
        """The sum of the gradients, differentiable again for gradient penalties."""
        return _AllReduceSum.apply(grads[0])  # type: ignore[no-untyped-call]
