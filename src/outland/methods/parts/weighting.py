"""Weights on graphs that make the coordinates of their embeddings independent (the core of StableNet)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema, Task
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.independence import Dependence, FourierInput, Pairs, fourier_dependence
from outland.methods.parts.risk import label_losses
from outland.nn import BackboneSettings, GraphNet
from outland.settings import check_ranges

_COMMON_WIDTH = 300
_START = Progress()


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
    pairs: Pairs = "same"
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
        self, z: Tensor, batch: GraphBatch, measure: Callable[[Tensor, Tensor], Dependence], progress: Progress = _START
    ) -> Tensor:
        """Weights `[B]` with mean 1 over the real graphs, 0 for padding.

        Args:
            z: features `[B, width]`.
            batch: the graphs they are of.
            measure: makes the dependence of rows `[n, width]`, of which some are valid `[n]`, ready to be weighed.
            progress: for the warm-up.
        """
        real = batch.real_graphs
        z = torch.where(real[:, None], z.detach(), 0)
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        logits = z.new_ones(len(z))
        if self.settings.inner_steps and progress.branch(lambda now: now.epoch >= self.settings.warm_up):
            rows, valid = torch.cat([z, self.features.to(z.dtype)]), torch.cat([real, self.seen > 0])
            with torch.autocast(z.device.type, enabled=False):  # half precision finds other weights altogether
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


class WeighingMethod(Method):
    """Whole graphs, each with a weight; weights play no part at inference.

    One graph that has all the weight is a trivial optimum without any dependence, so the effective sample size of the
    weights is watched, as a share of the batch: between .3 and .95 they do something sane.
    """

    Settings: ClassVar[type[MethodSettings]] = WeightingSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "lambda_p": (1.0, 10.0, 70.0),
        "features": ("normalised", "standardised"),
        "inner_lr": (0.1, 1.0),
    }

    def __init__(
        self, schema: Schema, backbone: BackboneSettings, settings: MethodSettings | None = None, width: int = 0
    ) -> None:
        super().__init__(schema, backbone, settings)
        self.classifier = GraphNet(backbone, schema)
        self.weighter = SampleWeighter(width or backbone.width, self.settings)

    def read(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """What shall become independent `[B, width]`, and the embeddings that the head reads `[B, d]`."""
        raise NotImplementedError

    def measure(self, z: Tensor, valid: Tensor) -> Dependence:
        """What the weights are to lower."""
        return scaled_dependence(z, valid, self.random, self.settings)

    def weights(self, z: Tensor, batch: GraphBatch, progress: Progress) -> Tensor:
        """The weight of each graph, with mean 1; no gradient flows through it."""
        weights: Tensor = self.weighter(z, batch, self.measure, progress)
        return weights

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The weighted mean loss."""
        z, h = self.read(batch)
        weights = self.weights(z, batch, progress)
        return {"weighted_risk": weighted_risk(self.classifier.head(h, batch), batch, self.schema.task, weights)}

    def watch(self) -> Terms:
        """The effective sample size."""
        return {"effective_sample_size": self.weighter.share}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits of whole graphs."""
        logits: Tensor = self.classifier.head(self.read(batch)[1], batch)
        return logits


def scaled_dependence(z: Tensor, valid: Tensor, random: torch.Generator, settings: WeightingSettings) -> Dependence:
    """The dependence of the coordinates of `z [n, d]` as the settings want it, for the width they want it at."""
    plain = fourier_dependence(z, valid, random, settings.features, settings.frequencies, settings.pairs)
    scale = (z.shape[1] / _COMMON_WIDTH) ** 2 if settings.scale == "width" else 1.0
    return lambda weights: plain(weights) / scale


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
