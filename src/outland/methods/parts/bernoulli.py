"""Relaxed draws of Bernoulli variables."""

import torch
from torch import Tensor


def concrete(score: Tensor, temperature: float | Tensor, random: torch.Generator) -> Tensor:
    r"""A relaxed Bernoulli draw with log-odds `score`: :math:`\sigma((z + \log u - \log(1-u)) / T)`, u uniform."""
    uniform = torch.rand(score.shape, generator=random, device=score.device, dtype=score.dtype)
    return relaxed(score, uniform, temperature)


def relaxed(score: Tensor, uniform: Tensor, temperature: float | Tensor) -> Tensor:
    """The draw for given uniform numbers."""
    return ((score + uniform.logit(torch.finfo(score.dtype).eps)) / temperature).to(score.dtype).sigmoid()
