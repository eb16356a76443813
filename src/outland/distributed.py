"""Sums over the processes that train one model together; alone, they change nothing."""

from typing import Any

import torch
from torch import Tensor, distributed


def world_size() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Which of them this is, from 0."""
    return distributed.get_rank() if world_size() > 1 else 0


def all_reduce_sum(values: Tensor) -> Tensor:
    """The sum of `values` over all processes, with gradients to every one of them."""
    summed: Tensor = _Total.apply(values) if world_size() > 1 else values  # type: ignore[no-untyped-call]
    return summed


class _Total(torch.autograd.Function):
    """What each process adds counts in the losses of all, so that going back is a sum over all as well."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        """The sum."""
        summed = values.detach().clone().contiguous()
        distributed.all_reduce(summed)
        return summed

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        """The sum of the slopes; differentiable again, for penalties on slopes."""
        return _Total.apply(gradients[0])  # type: ignore[no-untyped-call]
