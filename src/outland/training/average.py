"""A moving average of a model's weights, which often does better than the last weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from outland.methods import Method, Progress


class WeightAverage:
    r"""A moving average of weights and batch norm statistics, updated after every step.

    At step t a share :math:`1 - \min(d, (1+t)/(10+t))` of it is replaced, so that the first steps are soon forgotten.
    The decay d is the share of the old in the long run; 0.999 looks back about a thousand steps.

    By hand, because `torch.optim.swa_utils` keeps a copy of the whole model and a decay that a replayed step cannot
    follow.
    """

    def __init__(self, method: Method, decay: float) -> None:
        self.decay = decay
        state = method.state_dict()  # shares memory with the weights
        self._names = [name for name, tensor in state.items() if tensor.is_floating_point()]
        self._weights: list[Tensor] = [state[name].detach() for name in self._names]
        self._mean = [tensor.clone() for tensor in self._weights]

    @torch.no_grad()
    def update(self, progress: Progress) -> None:
        """Move the average towards the weights after a step."""
        share = progress.scalar(lambda now: 1 - min(self.decay, (1 + now.step) / (10 + now.step)))
        change = torch._foreach_sub(self._weights, self._mean)
        torch._foreach_mul_(change, share)
        torch._foreach_add_(self._mean, change)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Context in which the model has its average weights, in place."""
        backup = [tensor.clone() for tensor in self._weights]
        torch._foreach_copy_(self._weights, self._mean)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, backup)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by name."""
        return dict(zip(self._names, self._mean, strict=True))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Set the averages to those of `state_dict`."""
        for name, tensor in zip(self._names, self._mean, strict=True):
            tensor.copy_(state[name])
