"""Measures of dependence between coordinates, or blocks of coordinates, of weighted embeddings."""

import math
from typing import Literal

import torch
from torch import Tensor

FourierInput = Literal["standardised", "raw", "normalised"]
Pairs = Literal["same", "all"]


def standardised(z: Tensor, valid: Tensor) -> Tensor:
    """Every coordinate with mean 0 and variance 1 over the valid rows; the others are 0."""
    count = valid.sum().clamp(min=1)
    centred = torch.where(valid[:, None], z - torch.where(valid[:, None], z, 0).sum(0) / count, 0)
    return centred * (centred.square().sum(0) / count + 1e-5).rsqrt()


def fourier_features(
    z: Tensor, frequency: Tensor, phase: Tensor, normalise: bool = False, power: float = 2.0
) -> Tensor:
    r""":math:`\sqrt{2/Q}\cos(wz + \varphi)` of every coordinate `[..., Q, n, d]`, or the code's `[..., 2Q, n, d]` form.

    `power` is the 2 under the root.
    """
    angle, height = torch.addcmul(phase, frequency, z), math.sqrt(power / frequency.shape[-3])
    if not normalise:
        return angle.cos_().mul_(height)
    least, most = angle.amin(-1, keepdim=True), angle.amax(-1, keepdim=True)
    angle = (angle - least) / (most - least).clamp(min=1e-12) * (math.pi / 2)
    return height * torch.cat([angle.cos(), angle.sin()], dim=-3)


def decorrelation(features: Tensor, weights: Tensor, pairs: Pairs = "same") -> Tensor:
    r"""Sum of squared weighted covariances of different coordinates, features `[Q, n, d]`, weights summing to 1.

    .. math:: D = \sum_k \sum_{i \ne j} (C^k_{ij})^2, \quad
              C^k = F^{k\top}\mathrm{diag}(q)F^k - (F^{k\top}q)(F^{k\top}q)^\top

    The squared entries of C sum to those of the weighted Gram matrix of the rows, which is n × n and whose expensive
    product does not depend on the weights; the covariances of a coordinate with itself are subtracted.
    """
    joint = features if pairs == "same" else features.transpose(0, 1).flatten(1)[None]
    gram = centred_kernels(joint @ joint.mT, weights)
    total = ((gram.square() @ weights) @ weights).sum()
    centred = features - (weights @ features)[:, None]
    weighted = weights[:, None] * centred
    diagonal = (weighted * centred).sum(1) if pairs == "same" else torch.einsum("knd,lnd->kld", weighted, centred)
    return total - diagonal.square().sum()


def centred_kernels(kernels: Tensor, weights: Tensor) -> Tensor:
    """Symmetric kernels `[k, n, n]` of rows less their weighted mean."""
    mean = kernels @ weights
    return kernels - mean[:, :, None] - mean[:, None, :] + (mean @ weights)[:, None, None]


def gaussian_kernels(blocks: Tensor, valid: Tensor, bandwidth: Literal["median", "one"] = "one") -> Tensor:
    """Gaussian kernels `[k, n, n]` of rows `[k, n, d]`; σ is 1, or the median distance between valid rows."""
    norms = blocks.square().sum(2)
    squared = (norms[:, :, None] + norms[:, None, :] - 2 * blocks @ blocks.mT).clamp(min=0)
    if bandwidth == "one":
        return (-squared / 2).exp()
    pairs = valid[:, None] & valid & ~torch.eye(len(valid), dtype=torch.bool, device=valid.device)
    ordered = torch.where(pairs, squared, torch.inf).flatten(1).sort(1).values
    median = ordered.index_select(1, ((pairs.sum() - 1) // 2).clamp(min=0).reshape(1))[:, :, None]
    return (-squared / (2 * torch.where(median.isfinite(), median, 1).clamp(min=1e-12))).exp()


def hsic(kernels: Tensor, weights: Tensor, count: Tensor) -> Tensor:
    r"""HSIC of every two kernels `[k, k]`, with weights that sum to 1 on the kernels' rows.

    .. math:: \mathrm{HSIC}_q(K, L) = \Big(\frac n{n-1}\Big)^2 \sum_{ab} q_a q_b \tilde K_{ab} \tilde L_{ab}

    which with uniform weights is :math:`\mathrm{tr}(KHLH) / (n-1)^2`.
    """
    flat = centred_kernels(kernels, weights).flatten(1)
    count = count.to(kernels.dtype)
    correction = count / (count - 1).clamp(min=1)
    return correction.square() * (flat * torch.outer(weights, weights).flatten()) @ flat.T
