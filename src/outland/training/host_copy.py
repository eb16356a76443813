"""Tensors on their way from the device to the host."""

import torch
from torch import Tensor


class HostCopy:
    """Copies of tensors on the host, which arrive when the device has done what was launched before them.

    `event` is recorded behind the copies; None where there is nothing to wait for.
    """

    def __init__(self, *tensors: Tensor) -> None:
        on_gpu = any(tensor.is_cuda for tensor in tensors)
        self._tensors = [tensor.detach().to("cpu", non_blocking=True, copy=True) for tensor in tensors]
        self.event = torch.cuda.Event() if on_gpu else None
        if self.event is not None:
            self.event.record()

    @property
    def has_arrived(self) -> bool:
        """Whether the copies can be read."""
        return self.event is None or self.event.query()

    def tensors(self) -> list[Tensor]:
        """The copies; waits for them if need be."""
        if self.event is not None:
            self.event.synchronize()
        return self._tensors
