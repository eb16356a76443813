"""The processes that train one model together, and reductions over them; in a single process these change nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed


def is_distributed_launch() -> bool:
    """Whether `torchrun` started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Whether this process prints and writes files: the one of rank 0."""
    return int(os.environ.get("RANK", "0")) == 0


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Open the default process group, with the backend that suits `device`, and close it again."""
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(minutes=10))
    try:
        yield
    finally:
        distributed.destroy_process_group()


def world_size() -> int:
    """Number of processes in the group; 1 without one."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Index of this process in the group; 0 without one."""
    return distributed.get_rank() if world_size() > 1 else 0


def all_reduce_sum(values: Tensor) -> Tensor:
    """The sum of `values` over all processes, with gradients to every one of them."""
    summed: Tensor = _AllReduceSum.apply(values) if world_size() > 1 else values  # type: ignore[no-untyped-call]
    return summed


def all_reduce_mean(gradients: list[Tensor]) -> list[Tensor]:
    """The mean of each gradient over all processes, in one message."""
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    distributed.all_reduce(flat)
    flat /= world_size()
    pieces = flat.split([gradient.numel() for gradient in gradients])
    return [piece.view_as(gradient) for piece, gradient in zip(pieces, gradients, strict=True)]


class _AllReduceSum(torch.autograd.Function):
    """Sum forward and backward: what each process adds counts in the losses of all."""

    @staticmethod
    def forward(context: Any, values: Tensor) -> Tensor:
        """The sum over processes."""
        summed = values.detach().clone().contiguous()
        distributed.all_reduce(summed)
        return summed

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        """The sum of the gradients; differentiable again, for penalties on gradients."""
        return _AllReduceSum.apply(gradients[0])  # type: ignore[no-untyped-call]
