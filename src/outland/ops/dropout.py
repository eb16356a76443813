"""ReLU and dropout, drawn from a given generator."""

from typing import NamedTuple

import torch
from torch import Tensor


class DropoutSeeds:
    """Seeds for kernels that draw by themselves: one draw from the generator serves a whole step."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.drawn: Tensor | None = None
        self.taken = 0

    def renew(self) -> None:
        """Draw the seed of the next step, on a GPU."""
        device = self.generator.device
        if device.type != "cpu":
            self.drawn, self.taken = torch.randint(2**31, (1,), generator=self.generator, device=device), 0

    def take(self) -> tuple[Tensor, int]:
        """A seed of its own: a number on the device, and one to add to it."""
        if self.drawn is None:
            self.renew()
        assert self.drawn is not None, "seeds are for a GPU"
        self.taken += 1
        return self.drawn, self.taken


class DropoutDraws(NamedTuple):
    """How entries are dropped."""

    p: float  # probability of each entry to become 0
    generator: torch.Generator | None = None  # where draws come from; None is PyTorch's own
    seeds: DropoutSeeds | None = None  # the same, for kernels

    def seed(self, device: torch.device) -> tuple[Tensor, int]:
        """A fresh seed for a kernel: a number on the device, and one to add to it."""
        if self.seeds is not None:
            return self.seeds.take()
        return torch.randint(2**31, (1,), generator=self.generator, device=device), 0


KernelDraws = tuple[float, Tensor | None, int]  # p, a seed on the device, and what to add to it


def kernel_draws(dropout: DropoutDraws | None, device: torch.device) -> KernelDraws:
    """What a kernel drops entries by; it has no seed where none are dropped, or all, which `activate` does."""
    if dropout is None or not 0 < dropout.p < 1:
        return 0.0, None, 0
    return dropout.p, *dropout.seed(device)


def activate(x: Tensor, relu: bool, dropout: DropoutDraws | None) -> Tensor:
    """`x` after a ReLU if asked, and after dropout if there is any."""
    if dropout is None or dropout.p == 0:
        return x.relu() if relu else x
    if dropout.p == 1:
        return x * 0
    return x * _keep_mask(x.detach(), relu, dropout.p, dropout.generator).mul_(1 / (1 - dropout.p))


def _keep_mask(x: Tensor, relu: bool, p: float, generator: torch.Generator | None) -> Tensor:
    """1 for entries that stay, 0 for those that are dropped or, with a ReLU, not above 0."""
    if x.device.type != "cpu":
        keep = torch.rand(x.shape, generator=generator, device=x.device) >= p
        return (keep & (x > 0) if relu else keep).to(x.dtype)
    # Random words of 64 bits, four or eight entries a word: several times faster on a CPU than a coin for each. The
    # probability is the nearest multiple of 1/65536. The mask is written as numbers at once, which is faster too.
    bits = 8 if (p * 2**8).is_integer() else 16
    words = torch.empty(-(-x.numel() * bits // 64), dtype=torch.long).random_(-(2**63), None, generator=generator)
    draws = words.view(torch.int8 if bits == 8 else torch.int16)[: x.numel()].view(x.shape)
    dropped = min(round(p * 2**bits), 2**bits - 1)  # of all values that can be drawn
    mask = torch.ge(draws, dropped - 2 ** (bits - 1), out=torch.empty_like(x))
    return mask.mul_(torch.gt(x, 0, out=torch.empty_like(x))) if relu else mask
