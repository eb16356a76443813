"""FLAG: adversarial noise on node inputs, by a few steps of gradient ascent whose risks are all minimised."""

from collections.abc import Iterator

import torch
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.base import MethodSettings, NodeInputs, Progress, Terms
from outland.methods.erm import ERM
from outland.settings import NonNegative, PositiveInt, settings


@settings("method")
class FLAGSettings(MethodSettings):
    """Hyper-parameters of FLAG.

    Args:
        size: s, of the first uniform noise and of each ascent step.
        ascents: M, passes a step.
    """

    size: NonNegative = 1e-2
    ascents: PositiveInt = 3


class FLAG(ERM[FLAGSettings]):
    r"""Robust Optimization as Data Augmentation for Large-scale Graphs (Kong et al., CVPR 2022).

    .. math:: \delta_0 \sim U(-s, s), \quad
              \delta_{t+1} = \delta_t + s\,\mathrm{sign}\,\nabla_\delta \hat R(x + \delta_t), \quad
              \min_\theta \frac1M \sum_{t<M} \hat R(x + \delta_t)

    The noise is added to node inputs after categories are embedded, and is not projected. Clean inputs at inference.
    """

    name = "flag"
    family = "augmentation"
    citation = "Kong et al., CVPR 2022"
    learns_augmentation = True
    space = {"size": (1e-3, 5e-3, 1e-2, 1e-1)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean risk over the passes of the ascent."""
        return {"risk": torch.stack([risk for risk, _ in self.ascent(batch)]).mean()}

    def ascent(self, batch: GraphBatch) -> Iterator[tuple[Tensor, Tensor]]:
        """The risk of each pass and the noise δ at which it was taken `[N, d]`."""
        size, embed = self.settings.size, self.classifier.encoder.embed
        clean = embed(batch)
        uniform = torch.rand(clean.shape, generator=self.random, device=clean.device, dtype=clean.dtype)
        delta: Tensor = ((2 * uniform - 1) * size).requires_grad_()
        for remaining in reversed(range(self.settings.ascents)):
            risk = self.risk(self.classifier(batch, states=embed(batch) + delta), batch)
            yield risk, delta
            if remaining:
                (grad,) = torch.autograd.grad(risk, delta, retain_graph=True)
                delta = (delta + size * grad.sign()).detach().requires_grad_()

    def augment(self, batch: GraphBatch) -> NodeInputs:
        """Node inputs with the noise of the last pass."""
        with torch.enable_grad():
            *_, (_, delta) = self.ascent(batch)
        return NodeInputs((self.classifier.encoder.embed(batch) + delta).detach())

    def unaugmented(self, batch: GraphBatch) -> NodeInputs:
        """Node inputs without noise."""
        return NodeInputs(self.classifier.encoder.embed(batch))
