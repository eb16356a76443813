"""Dropout that draws from a stream of its own."""

import torch
from torch import Tensor, nn


class Seeds:
    """Hands out seeds for kernels that draw by themselves: one draw from the stream serves a whole step.

    Args:
        random: the stream.
    """

    def __init__(self, random: torch.Generator) -> None:
        self.random = random
        self._drawn: Tensor | None = None
        self._taken = 0

    def renew(self) -> None:
        """Draw anew for what comes."""
        if self.random.device.type != "cpu":
            self._drawn, self._taken = torch.randint(2**31, (1,), generator=self.random, device=self.random.device), 0

    def take(self) -> tuple[Tensor, int]:
        """A seed that nobody else gets: a number on the device, and one to add to it."""
        if self._drawn is None:
            self.renew()
        assert self._drawn is not None, "seeds are for a GPU"
        self._taken += 1
        return self._drawn, self._taken


class Dropout(nn.Module):
    """`torch.nn.Dropout`, from a given generator: runs that train side by side do not take each other's numbers.

    Args:
        p: chance of each entry to become 0 while training.

    Attributes:
        random: where the numbers come from; None is PyTorch's own stream. Not saved with the module.
        seeds: the same, for kernels.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.random: torch.Generator | None = None
        self.seeds: Seeds | None = None

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        """`x`, cut at 0 if asked, thinned and scaled up while training."""
        if not self.training or self.p == 0:
            return x.relu() if relu else x
        if self.p == 1:
            return x * 0
        return x * self._kept(x.detach(), relu).mul_(1 / (1 - self.p))

    def seed(self, device: torch.device) -> tuple[Tensor, int]:
        """A fresh seed for a kernel that draws by itself."""
        if self.seeds is not None:
            return self.seeds.take()
        return torch.randint(2**31, (1,), generator=self.random, device=device), 0

    def _kept(self, x: Tensor, relu: bool) -> Tensor:
        """1 for entries that stay, 0 for others: what is cut at 0 and what is dropped are left out together."""
        if x.device.type != "cpu":
            stays = torch.rand(x.shape, generator=self.random, device=x.device) >= self.p
            return (stays & (x > 0) if relu else stays).to(x.dtype)
        # Random words of 64 bits, four or eight entries a word: several times faster on a CPU than a coin for each. The
        # chance is that of the nearest multiple of 1/65536. Answers are written as numbers at once: faster too.
        bits = 8 if (self.p * 2**8).is_integer() else 16
        words = torch.empty(-(-x.numel() * bits // 64), dtype=torch.long).random_(-(2**63), None, generator=self.random)
        draws = words.view(torch.int8 if bits == 8 else torch.int16)[: x.numel()].view(x.shape)
        dropped = min(round(self.p * 2**bits), 2**bits - 1)  # of all that can be drawn
        kept = torch.ge(draws, dropped - 2 ** (bits - 1), out=torch.empty_like(x))
        return kept.mul_(torch.gt(x, 0, out=torch.empty_like(x))) if relu else kept
