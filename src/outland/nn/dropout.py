"""Dropout that draws from a generator of its own."""

import torch
from torch import Tensor, nn

from outland.ops import DropoutDraws, DropoutSeeds, activate


class Dropout(nn.Module):
    """`torch.nn.Dropout`, from a given generator: runs that train side by side do not take each other's draws.

    Args:
        p: probability of each entry to become 0 while training.

    Attributes:
        generator: where draws come from; None is PyTorch's own. Not saved with the module.
        seeds: the same, for kernels.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None
        self.seeds: DropoutSeeds | None = None

    def draws(self) -> DropoutDraws | None:
        """How entries are dropped, as operations take it; None outside training."""
        return DropoutDraws(self.p, self.generator, self.seeds) if self.training else None

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        """`x` after a ReLU if asked, thinned and scaled up while training."""
        return activate(x, relu, self.draws())
