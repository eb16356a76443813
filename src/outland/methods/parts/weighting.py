"""Weights on graphs that make the coordinates of their embeddings independent, as in StableNet."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import TypeVar

from outland.graphs import GraphBatch, Schema, Task
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.dependence import Dependence, FourierDependence, FourierSettings, Measure
from outland.methods.parts.independence import FourierInput, Pairs
from outland.methods.parts.risk import label_losses
from outland.nn import BackboneSettings, GraphNet
from outland.ops import Descent, descend_weights, simplex
from outland.settings import Count, Fraction, NonNegative, PositiveInt, settings

_COMMON_WIDTH = 300
_START = Progress()


@settings("method")
class WeightingSettings(MethodSettings):
    """Hyper-parameters of learned graph weights.

    Args:
        inner_steps: gradient steps on the weights in each batch; 0 leaves them uniform.
        inner_lr: their learning rate, a tenth of it in the second half of the steps.
        inner_momentum: their momentum.
        lambda_p: λ, by which dependence is divided against the sum of squared weights; larger is closer to ERM.
        scale: `width` multiplies λ by (d / 300)², since dependence is a sum over d² pairs; `none` takes it as it is.
        features: argument of the cosine: embeddings `standardised` over the batch, without which it aliases; `raw`
            ones, as printed in StableNet; or, as in its code, `normalised` to [0, π/2] across the coordinates of each
            graph, with cosines and sines, which comes close to ERM.
        frequencies: Q, Fourier features a coordinate.
        pairs: count the covariances of two coordinates at the `same` Fourier feature, as StableNet does, or at `all` Q²
            pairs of features, as OOD-GNN does.
        memory: rows of the memory of earlier batches' embeddings, which are weighed beside this one; 0 has none.
        memory_momentum: momentum of each row of the memory, once it has been written ten times or so.
        warm_up: epochs with uniform weights, which are not remembered.
    """

    inner_steps: Count = 20
    inner_lr: NonNegative = 1.0
    inner_momentum: Fraction = 0.9
    lambda_p: Annotated[float, Field(ge=0.01)] = 70.0
    scale: Literal["width", "none"] = "width"
    features: FourierInput = "standardised"
    frequencies: PositiveInt = 1
    pairs: Pairs = "same"
    memory: Count = 128
    memory_momentum: Fraction = 0.9
    warm_up: Count = 0


W = TypeVar("W", bound=WeightingSettings, covariant=True, default=WeightingSettings)


class SampleWeighter(nn.Module):
    r"""Weights for the graphs of a batch, by a few gradient steps on their logits ω.

    .. math:: \min_\omega \frac1\lambda D\big(Z \cup Z_m, \mathrm{softmax}(\omega \cup \omega_m)\big)
              + \sum_i \mathrm{softmax}(\omega)_i^2

    Z is detached: no gradient flows into the network. Row i of the memory (Z_m, ω_m) averages the i-th graphs of
    earlier batches: a running mean at first, a moving average later. Rows never written do not count, and graphs past
    the last row are not remembered.
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

    def forward(self, z: Tensor, batch: GraphBatch, measure: Measure, progress: Progress = _START) -> Tensor:
        """Weights `[B]` for features `[B, width]`, with mean 1 over the real graphs, 0 for padding."""
        real = batch.real_graphs
        z = torch.where(real[:, None], z.detach(), 0)
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        logits = z.new_ones(len(z))
        if self.settings.inner_steps and progress.branch(lambda now: now.epoch >= self.settings.warm_up):
            rows, valid = torch.cat([z, self.features.to(z.dtype)]), torch.cat([real, self.seen > 0])
            with torch.autocast(z.device.type, enabled=False):  # in half precision the weights come out quite different
                logits = self.descend(logits, valid, measure(rows, valid))
            self._remember(z, logits, real)
        weights = simplex(logits, real, real.sum())
        self.share.copy_(effective_share(weights, real))
        return weights

    def descend(self, logits: Tensor, valid: Tensor, dependence: Dependence) -> Tensor:
        """The logits after the inner steps: gradient descent with momentum. `valid` are rows of batch and memory."""
        settings, velocity = self.settings, torch.zeros_like(logits)
        joint = torch.cat([logits, self.logits.to(logits.dtype)])
        weights = simplex(joint, valid)
        for step in range(settings.inner_steps):
            lr = settings.inner_lr * (1 if 2 * step < settings.inner_steps else 0.1)
            descent = Descent(lr, settings.inner_momentum, 1 / settings.lambda_p)
            gradient = dependence.gradient(step, weights)
            weights = descend_weights(joint, velocity, gradient, weights, valid, descent)
        return joint[: len(logits)]

    @torch.no_grad()
    def _remember(self, z: Tensor, logits: Tensor, real: Tensor) -> None:
        rows = min(len(z), self.settings.memory)
        real, seen = real[:rows], self.seen[:rows]
        new = real * (1 / (seen + 1).to(self.features.dtype)).clamp(min=1 - self.settings.memory_momentum)
        self.features[:rows].lerp_(z[:rows].to(new.dtype), new[:, None])
        self.logits[:rows].lerp_(logits[:rows].to(new.dtype), new)
        seen += real


class WeightingMethod(Method[W]):
    """A mean loss over weighted graphs; inference uses no weights.

    One graph that has all the weight is a trivial optimum without any dependence, so the effective sample size of the
    weights is among the diagnostics, as a share of the batch: useful weights have between .3 and .95.
    """

    space = {"lambda_p": (1.0, 10.0, 70.0), "features": ("normalised", "standardised"), "inner_lr": (0.1, 1.0)}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: W | None = None, width: int = 0) -> None:
        super().__init__(schema, backbone, settings)
        self.classifier = GraphNet(backbone, schema)
        self.weighter = SampleWeighter(width or backbone.width, self.settings)

    def features_and_readout(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Features that the weights make independent `[B, width]`, and embeddings that the head reads `[B, d]`."""
        raise NotImplementedError

    def dependence(self, z: Tensor, valid: Tensor) -> Dependence:
        """The measure of dependence that the weights minimise."""
        return scaled_dependence(z, valid, self.random, self.settings)

    def weights(self, z: Tensor, batch: GraphBatch, progress: Progress) -> Tensor:
        """The weight of each graph, with mean 1, detached."""
        weights: Tensor = self.weighter(z, batch, self.dependence, progress)
        return weights

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The weighted mean loss."""
        z, h = self.features_and_readout(batch)
        weights = self.weights(z, batch, progress)
        return {"weighted_risk": weighted_risk(self.classifier.head(h, batch), batch, self.schema.task, weights)}

    def diagnostics(self) -> Terms:
        """The effective sample size, as a share of the batch."""
        return {"effective_sample_size": self.weighter.share}

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of whole graphs."""
        return self.features_and_readout(batch)[1]


def scaled_dependence(z: Tensor, valid: Tensor, random: torch.Generator, settings: WeightingSettings) -> Dependence:
    """Fourier dependence of the coordinates of `z [n, d]` by these settings, divided by (d / 300)² if they say so."""
    power = 2 * _COMMON_WIDTH / z.shape[1] if settings.scale == "width" else 2.0
    fourier = FourierSettings(settings.features, settings.frequencies, settings.pairs, power)
    return FourierDependence(z, valid, random, settings.inner_steps, fourier)


def weighted_risk(logits: Tensor, batch: GraphBatch, task: Task, weights: Tensor) -> Tensor:
    """Mean loss over the known labels, each with its graph's weight."""
    losses, known = label_losses(logits, batch, task)
    number = (weights[:, None] * known).sum()
    return (weights[:, None] * losses).sum() / number.clamp(min=1e-6)


def effective_share(weights: Tensor, real: Tensor) -> Tensor:
    """Effective sample size (Σw)² / Σw² over the number of graphs: 1 for equal weights, 1/B if one has all weight."""
    return weights.sum().square() / (weights.square().sum() * real.sum()).clamp(min=torch.finfo(weights.dtype).tiny)
