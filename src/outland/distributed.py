"""The processes that train one model together, and reductions over them; in a single process these change nothing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Timer
from typing import Any

import torch
from torch import Tensor, distributed

from outland.errors import OutlandError
from outland.progress import say

MEETING_SECONDS = 60  # that processes wait for each other at the start; `OUTLAND_MEETING_SECONDS` says otherwise
_NOTE_SECONDS = 5.0  # after which a process says that it waits
_REDUCTION = timedelta(minutes=10)  # that a process waits for the others in the middle of its work


def is_distributed_launch() -> bool:
    """Whether `torchrun` started this process as one of several."""
    return _number("WORLD_SIZE", 1) > 1


def is_main_process() -> bool:
    """Whether this process prints and writes files: the one of rank 0."""
    return _number("RANK", 0) == 0


def local_rank() -> int:
    """Index of this process among those of its machine."""
    return _number("LOCAL_RANK", 0)


def _number(name: str, default: int) -> int:
    """A whole number that `torchrun` has put into the environment."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or len(text) > 9:
        raise OutlandError(f"the environment variable {name} is '{text}', not a number: start processes by torchrun")
    return int(text)


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Open the default process group, with the backend that suits `device`, and close it again."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    seconds, _ = _number("OUTLAND_MEETING_SECONDS", MEETING_SECONDS), _number("RANK", 0)
    waiting = f"this process waits for the others of {os.environ.get('WORLD_SIZE')}, for up to {seconds} s"
    note = Timer(_NOTE_SECONDS, say, [waiting, "yellow"])
    note.start()
    try:
        store, rank, size = next(distributed.rendezvous("env://", timeout=timedelta(seconds=seconds)))
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_REDUCTION)
    except (RuntimeError, TypeError, ValueError) as problem:
        reason = str(problem).partition("\n")[0]
        raise OutlandError(
            f"the {os.environ.get('WORLD_SIZE')} processes of this training did not meet within {seconds} s "
            f"({reason}): start all of them by torchrun"
        ) from None
    finally:
        note.cancel()
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
