"""Weights on graphs that make the coordinates of their embeddings independent (the core of StableNet)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch, Task
from outland.methods.base import MethodSettings
from outland.methods.parts.risk import label_losses
from outland.settings import check_ranges

FourierInput = Literal["standardised", "raw", "normalised"]
Dependence = Callable[[Tensor], Tensor]  # weights `[n]` that sum to 1, to how dependent the features are
_COMMON_WIDTH = 300


@dataclass(frozen=True)
class WeightingSettings(MethodSettings):
    """Hyper-parameters of learned graph weights.

    Args:
        inner_steps: gradient steps on the weights in each batch; 0 leaves them uniform.
        inner_lr: their learning rate, a tenth of it in the second half.
        inner_momentum: their momentum.
        lambda_p: λ, by which dependence is divided against the sum of squared weights; larger is closer to ERM.
        scale: `width` multiplies λ by (d / 300)², since dependence is a sum over d² pairs; `none` takes it as it is.
        features: what enters the cosine: embeddings `standardised` over the batch, without which it aliases; `raw`
            ones, as printed in StableNet; or, as in its code, `normalised` to [0, π/2] across the coordinates of each
            graph, with cosines and sines, which comes close to ERM.
        frequencies: Q, Fourier features a coordinate.
        pairs: count the covariances of two coordinates at the `same` Fourier feature, as StableNet does, or at `all` Q²
            pairs of features, as OOD-GNN does.
        memory: embeddings of earlier batches that are weighed beside this one; 0 has none.
        memory_momentum: share of the old in each row of the memory, once it has been written ten times or so.
        warm_up: epochs with uniform weights and no memory of them.
    """

    inner_steps: int = 20
    inner_lr: float = 1.0
    inner_momentum: float = 0.9
    lambda_p: float = 70.0
    scale: Literal["width", "none"] = "width"
    features: FourierInput = "standardised"
    frequencies: int = 1
    pairs: Literal["same", "all"] = "same"
    memory: int = 128
    memory_momentum: float = 0.9
    warm_up: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", inner_steps=(0, None), inner_lr=(0, None), inner_momentum=(0, 1))
        check_ranges(self, "method", lambda_p=(0.01, None), frequencies=(1, None), memory=(0, None))
        check_ranges(self, "method", memory_momentum=(0, 1), warm_up=(0, None))


class SampleWeighter(nn.Module):
    r"""Finds weights for the graphs of a batch, by a few gradient steps on their logits ω.

    .. math:: \min_\omega \frac1\lambda D\big(Z \cup Z_m, \mathrm{softmax}(\omega \cup \omega_m)\big)
              + \sum_i \mathrm{softmax}(\omega)_i^2

    Z are given: nothing flows back into the network. The memory (Z_m, ω_m) has one row for each place in the batch and
    mixes what stood there: a running mean at first, a moving average later. Rows never written do not count, and a
    graph that stands behind the last row is not remembered.

    Args:
        width: of the features.
        settings: of the inner steps and the memory.
    """

    features: Tensor
    logits: Tensor
    seen: Tensor
    share: Tensor

    def __init__(self, width: int, settings: WeightingSettings) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("features", torch.zeros(settings.memory, width))
        self.register_buffer("logits", torch.ones(settings.memory))
        self.register_buffer("seen", torch.zeros(settings.memory, dtype=torch.long))
        self.register_buffer("share", torch.ones(()))

    def forward(
        self, z: Tensor, batch: GraphBatch, measure: Callable[[Tensor, Tensor], Dependence], epoch: int = 0
    ) -> Tensor:
        """Weights `[B]` with mean 1 over the real graphs, 0 for padding.

        Args:
            z: features `[B, width]`.
            batch: the graphs they are of.
            measure: makes the dependence of rows `[n, width]`, of which some are valid `[n]`, ready to be weighed.
            epoch: for the warm-up.
        """
        real = _real(batch)
        z = torch.where(real[:, None], z.detach(), 0)
        logits = z.new_ones(len(z))
        if self.settings.inner_steps and epoch >= self.settings.warm_up:
            rows, valid = torch.cat([z, self.features.to(z.dtype)]), torch.cat([real, self.seen > 0])
            logits = self.descend(logits, real, valid, measure(rows, valid))
            self._remember(z, logits, real)
        weights = simplex(logits, real, real.sum())
        self.share.copy_(effective_share(weights, real))
        return weights

    def descend(self, logits: Tensor, real: Tensor, valid: Tensor, dependence: Dependence) -> Tensor:
        """The logits after the inner steps: gradient descent with momentum."""
        chosen, velocity = self.settings, torch.zeros_like(logits)
        for step in range(chosen.inner_steps):
            with torch.enable_grad():
                logits.requires_grad_()
                together = torch.cat([logits, self.logits.to(logits.dtype)])
                objective = (
                    dependence(simplex(together, valid)) / chosen.lambda_p + simplex(logits, real).square().sum()
                )
                (slope,) = torch.autograd.grad(objective, logits)
            velocity = chosen.inner_momentum * velocity + slope
            rate = chosen.inner_lr * (1 if 2 * step < chosen.inner_steps else 0.1)
            logits = logits.detach() - rate * velocity
        return logits

    @torch.no_grad()
    def _remember(self, z: Tensor, logits: Tensor, real: Tensor) -> None:
        rows = min(len(z), self.settings.memory)
        real, seen = real[:rows], self.seen[:rows]
        new = real * (1 / (seen + 1).to(self.features.dtype)).clamp(min=1 - self.settings.memory_momentum)
        self.features[:rows].lerp_(z[:rows].to(new.dtype), new[:, None])
        self.logits[:rows].lerp_(logits[:rows].to(new.dtype), new)
        seen += real


def weighted_risk(logits: Tensor, batch: GraphBatch, task: Task, weights: Tensor) -> Tensor:
    """Mean loss over the known labels, each with its graph's weight; ERM's own if all weights are 1."""
    losses, known = label_losses(logits, batch, task)
    number = (weights[:, None] * known).sum()
    return (weights[:, None] * losses).sum() / number.clamp(min=1e-6)


def simplex(logits: Tensor, valid: Tensor, total: Tensor | float = 1.0) -> Tensor:
    """Softmax over the valid rows, which add up to `total`; 0 elsewhere. Equal logits get exactly `total` / n."""
    low = torch.where(valid, logits, torch.finfo(logits.dtype).min)
    powers = torch.where(valid, (low - low.detach().amax()).exp(), 0)
    return powers * (total / powers.sum().clamp(min=1))


def effective_share(weights: Tensor, real: Tensor) -> Tensor:
    """Effective sample size (Σw)² / Σw² over the number of graphs: 1 if all count alike, 1/B if one has all weight."""
    return weights.sum().square() / (weights.square().sum() * real.sum()).clamp(min=torch.finfo(weights.dtype).tiny)


def fourier_dependence(z: Tensor, valid: Tensor, random: torch.Generator, settings: WeightingSettings) -> Dependence:
    """How dependent the coordinates of `z [n, d]` are, by Fourier features that are drawn anew at every call."""
    width = z.shape[1]
    scale = (width / _COMMON_WIDTH) ** 2 if settings.scale == "width" else 1.0
    if settings.features == "standardised":
        z = standardised(z, valid)
    # The paper has a frequency for each coordinate, the code one for all; both a phase for each.
    shared = settings.features == "normalised"

    def dependence(weights: Tensor) -> Tensor:
        with torch.no_grad():
            number = settings.frequencies
            frequency = z.new_empty(number, 1, 1 if shared else width).normal_(generator=random)
            phase = z.new_empty(number, 1, width).uniform_(0, 2 * math.pi, generator=random)
            features = fourier_features(z, frequency, phase, normalise=shared)
        return decorrelation(features, weights, settings.pairs) / scale

    return dependence


def standardised(z: Tensor, valid: Tensor) -> Tensor:
    """Every coordinate with mean 0 and variance 1 over the valid rows; the others are 0."""
    count = valid.sum().clamp(min=1)
    centred = torch.where(valid[:, None], z - torch.where(valid[:, None], z, 0).sum(0) / count, 0)
    return centred * (centred.square().sum(0) / count + 1e-5).rsqrt()


def fourier_features(z: Tensor, frequency: Tensor, phase: Tensor, normalise: bool = False) -> Tensor:
    r""":math:`\sqrt{2/Q}\cos(wz + \varphi)` of every coordinate `[Q, n, d]`, or the code's `[2Q, n, d]` form."""
    angle, height = frequency * z + phase, math.sqrt(2 / len(frequency))
    if not normalise:
        return height * angle.cos()
    least, most = angle.amin(2, keepdim=True), angle.amax(2, keepdim=True)
    angle = (angle - least) / (most - least).clamp(min=1e-12) * (math.pi / 2)
    return height * torch.cat([angle.cos(), angle.sin()])


def decorrelation(features: Tensor, weights: Tensor, pairs: Literal["same", "all"] = "same") -> Tensor:
    r"""Sum of squared weighted covariances of different coordinates, features `[Q, n, d]`, weights summing to 1.

    .. math:: D = \sum_k \sum_{i \ne j} (C^k_{ij})^2, \quad
              C^k = F^{k\top}\mathrm{diag}(q)F^k - (F^{k\top}q)(F^{k\top}q)^\top

    A matrix's squared entries add up to those of the weighted Gram matrix of its rows, which is n × n and whose
    expensive product does not depend on the weights; the covariances of a coordinate with itself are taken off.
    """
    joint = features if pairs == "same" else features.transpose(0, 1).flatten(1)[None]
    gram = centred_kernels(joint @ joint.mT, weights)
    total = ((gram.square() @ weights) @ weights).sum()
    apart = features - (weights @ features)[:, None]
    weighted = weights[:, None] * apart
    own = (weighted * apart).sum(1) if pairs == "same" else torch.einsum("knd,lnd->kld", weighted, apart)
    return (total - own.square().sum()).clamp(min=0)


def centred_kernels(kernels: Tensor, weights: Tensor) -> Tensor:
    """Symmetric kernels `[k, n, n]` of rows whose weighted mean has been taken off."""
    mean = kernels @ weights
    return kernels - mean[:, :, None] - mean[:, None, :] + (mean @ weights)[:, None, None]


def hsic_dependence(z: Tensor, valid: Tensor, blocks: int, bandwidth: Literal["median", "one"]) -> Dependence:
    """10³ times the sum of HSIC over all pairs of blocks of `z [n, blocks · d]`."""
    kernels = gaussian_kernels(z.unflatten(1, (blocks, -1)).transpose(0, 1), valid, bandwidth)
    pairs = torch.ones(blocks, blocks, dtype=z.dtype, device=z.device).triu(1)
    return lambda weights: 1e3 * (pairs * hsic(kernels, weights, valid.sum())).sum()


def gaussian_kernels(blocks: Tensor, valid: Tensor, bandwidth: Literal["median", "one"] = "one") -> Tensor:
    """Gaussian kernels `[k, n, n]` of rows `[k, n, d]`; σ is 1, or the median distance between valid rows."""
    lengths = blocks.square().sum(2)
    apart = (lengths[:, :, None] + lengths[:, None, :] - 2 * blocks @ blocks.mT).clamp(min=0)
    if bandwidth == "one":
        return (-apart / 2).exp()
    others = ~torch.eye(len(valid), dtype=torch.bool, device=valid.device)
    pairs = valid[:, None] & valid & others
    ordered = torch.where(pairs, apart, torch.inf).flatten(1).sort(1).values
    median = ordered.index_select(1, ((pairs.sum() - 1) // 2).clamp(min=0).reshape(1))[:, :, None]
    return (-apart / (2 * torch.where(median.isfinite(), median, 1).clamp(min=1e-12))).exp()


def hsic(kernels: Tensor, weights: Tensor, count: Tensor) -> Tensor:
    r"""HSIC of every two kernels `[k, k]`, with weights that sum to 1 on the kernels' rows.

    .. math:: \mathrm{HSIC}_q(K, L) = \Big(\frac n{n-1}\Big)^2 \sum_{ab} q_a q_b \tilde K_{ab} \tilde L_{ab}

    which with uniform weights is :math:`\mathrm{tr}(KHLH) / (n-1)^2`.
    """
    flat = centred_kernels(kernels, weights).flatten(1)
    count = count.to(kernels.dtype)
    correction = count / (count - 1).clamp(min=1)
    return correction.square() * (flat * torch.outer(weights, weights).flatten()) @ flat.T


def _real(batch: GraphBatch) -> Tensor:
    if batch.graph_mask is not None:
        return batch.graph_mask
    return torch.ones(batch.num_graphs, dtype=torch.bool, device=batch.x.device)
