"""The mean of a model's weights over training, which often does better than the last of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from outland.methods import Method, Progress


class Average:
    r"""A moving average of weights and batch norm statistics, taken after every step.

    At step t a share :math:`1 - \min(d, (1+t)/(10+t))` of it is replaced, so that the first steps are soon forgotten.

    By hand, because `torch.optim.swa_utils` keeps a copy of the whole model and a decay that a replayed step cannot
    follow.

    Args:
        method: whose weights.
        decay: d, share of the old in the long run; 0.999 looks back about a thousand steps.
    """

    def __init__(self, method: Method, decay: float) -> None:
        self.decay = decay
        state = method.state_dict()  # shares memory with the weights
        self._names = [name for name, tensor in state.items() if tensor.is_floating_point()]
        self._current: list[Tensor] = [state[name].detach() for name in self._names]
        self._mean = [tensor.clone() for tensor in self._current]

    @torch.no_grad()
    def follow(self, progress: Progress) -> None:
        """Take the weights of a step in."""
        share = progress.scalar(lambda now: 1 - min(self.decay, (1 + now.step) / (10 + now.step)))
        change = torch._foreach_sub(self._current, self._mean)
        torch._foreach_mul_(change, share)
        torch._foreach_add_(self._mean, change)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has its mean weights here, in place."""
        own = [tensor.clone() for tensor in self._current]
        torch._foreach_copy_(self._current, self._mean)
        try:
            yield
        finally:
            torch._foreach_copy_(self._current, own)

    def state(self) -> dict[str, Tensor]:
        """The means by name."""
        return dict(zip(self._names, self._mean, strict=True))

    def restore(self, named: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        for name, tensor in zip(self._names, self._mean, strict=True):
            tensor.copy_(named[name])
