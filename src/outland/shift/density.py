"""Kernel density estimates with a full covariance, in bounded memory."""

import math

import torch
from torch import Tensor

_AT_ONCE = 2**22  # pairs of points looked at together: 32 MB


class Density:
    r"""A Gaussian kernel density estimate with Scott's bandwidth.

    .. math:: \hat p(z) = \sum_i w_i\,\mathcal{N}(z;\, z_i,\, h^2 \Sigma + jI), \quad
              h = n_{\mathrm{eff}}^{-1/(d+4)}, \quad n_{\mathrm{eff}} = 1 / \textstyle\sum_i w_i^2

    The jitter j keeps the covariance of points in a line, or all in one place, invertible. Without it this is
    `scipy.stats.gaussian_kde`.

    Args:
        points: z_i `[n, d]`.
        weight: w_i, which are made to add up to 1; by default all the same `[n]`.
        jitter: j.
    """

    def __init__(self, points: Tensor, weight: Tensor | None = None, jitter: float = 1e-6) -> None:
        count, width = points.shape
        weight = points.new_ones(count) if weight is None else weight.to(points)
        self.points, self.weight = points, weight / weight.sum()
        concentration = self.weight.square().sum()
        bandwidth = concentration ** (1 / (width + 4))
        centred = points - self.weight @ points
        covariance = (centred.T * self.weight) @ centred / (1 - concentration).clamp(min=1e-12)
        kernel = bandwidth.square() * covariance + jitter * torch.eye(width).to(points)
        self.root: Tensor = torch.linalg.cholesky(kernel)
        self._whitened = self._whiten(points)
        self._scale: Tensor = -0.5 * width * math.log(2 * math.pi) - self.root.diagonal().log().sum()

    def _whiten(self, at: Tensor) -> Tensor:
        flat: Tensor = torch.linalg.solve_triangular(self.root, at.T, upper=False)
        return flat.mT.contiguous()

    def log(self, at: Tensor) -> Tensor:
        """Logarithm of the density at each of the points `[M, d]`, a block of them at a time."""
        logs, weights = [], self.weight.log()
        for block in self._whiten(at).split(max(1, _AT_ONCE // len(self.points))):
            apart = torch.cdist(block, self._whitened).square_().mul_(-0.5).add_(weights)
            logs.append(apart.logsumexp(1))
        return torch.cat(logs) + self._scale

    def sample(self, count: int, random: torch.Generator) -> Tensor:
        """Points drawn from the estimate `[count, d]`; the draws are made on the host."""
        centres = self.weight.cpu().multinomial(count, replacement=True, generator=random)
        noise = torch.randn(count, self.points.shape[1], generator=random, dtype=torch.double)
        return self.points[centres.to(self.points.device)] + noise.to(self.points) @ self.root.T
