"""Kernel density estimates with a full covariance, in bounded memory."""

import math

import torch
from torch import Tensor

BLOCK_PAIRS = 2**22  # pairs of points in one block: 32 MB


class Density:
    r"""A Gaussian kernel density estimate with Scott's bandwidth.

    .. math:: \hat p(z) = \sum_i w_i\,\mathcal{N}(z;\, z_i,\, h^2 \Sigma + jI), \quad
              h = n_{\mathrm{eff}}^{-1/(d+4)}, \quad n_{\mathrm{eff}} = 1 / \textstyle\sum_i w_i^2

    The jitter j keeps the covariance of collinear or identical points invertible. Without it this is
    `scipy.stats.gaussian_kde`.

    Args:
        points: z_i `[n, d]`.
        weight: w_i up to a factor, equal by default `[n]`.
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

    def _whiten(self, points: Tensor) -> Tensor:
        whitened: Tensor = torch.linalg.solve_triangular(self.root, points.T, upper=False)
        return whitened.mT.contiguous()

    def log(self, points: Tensor) -> Tensor:
        """Logarithm of the density at each of the points `[M, d]`, computed block by block `[M]`."""
        logs, weights = [], self.weight.log()
        for block in self._whiten(points).split(max(1, BLOCK_PAIRS // len(self.points))):
            log_terms = torch.cdist(block, self._whitened).square_().mul_(-0.5).add_(weights)
            logs.append(log_terms.logsumexp(1))
        return torch.cat(logs) + self._scale

    def sample(self, count: int, random: torch.Generator) -> Tensor:
        """Points drawn from the estimate `[count, d]`; the draws are made on the host."""
        centres = self.weight.cpu().multinomial(count, replacement=True, generator=random)
        noise = torch.randn(count, self.points.shape[1], generator=random, dtype=torch.double)
        return self.points[centres.to(self.points.device)] + noise.to(self.points) @ self.root.T
