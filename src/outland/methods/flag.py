"""FLAG: adversarial noise on node inputs, found and used in the same few passes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.settings import check_ranges


@dataclass(frozen=True)
class FLAGSettings(MethodSettings):
    """Hyper-parameters of FLAG.

    Args:
        size: s, of the first uniform noise and of each ascent step.
        ascents: M, passes a step.
    """

    size: float = 1e-2
    ascents: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", size=(0, None), ascents=(1, None))


class FLAG(ERM):
    r"""Robust Optimization as Data Augmentation for Large-scale Graphs (Kong et al., CVPR 2022).

    .. math:: \delta_0 \sim U(-s, s), \quad
              \delta_{t+1} = \delta_t + s\,\mathrm{sign}\,\nabla_\delta \hat R(x + \delta_t), \quad
              \min_\theta \frac1M \sum_{t<M} \hat R(x + \delta_t)

    The noise is added to node inputs after categories are embedded, and is not projected. Clean inputs at inference.
    """

    name: ClassVar[str] = "flag"
    family: ClassVar[str] = "augmentation"
    citation: ClassVar[str] = "Kong et al., CVPR 2022"
    Settings: ClassVar[type[MethodSettings]] = FLAGSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"size": (1e-3, 5e-3, 1e-2, 1e-1)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss over the ascent."""
        return {"risk": torch.stack([risk for risk, _ in self.ascent(batch)]).mean()}

    def ascent(self, batch: GraphBatch) -> Iterator[tuple[Tensor, Tensor]]:
        """The risk of each pass and the noise it was taken at `[N, d]`."""
        chosen: FLAGSettings = self.settings
        clean = self.classifier.encoder.embed(batch)
        noise = torch.rand(clean.shape, generator=self.random, device=clean.device, dtype=clean.dtype)
        delta: Tensor = ((2 * noise - 1) * chosen.size).requires_grad_()
        for last in [False] * (chosen.ascents - 1) + [True]:
            risk = self.risk(self.classifier(batch, states=self.classifier.encoder.embed(batch) + delta), batch)
            yield risk, delta
            if not last:
                (slope,) = torch.autograd.grad(risk, delta, retain_graph=True)
                delta = (delta + chosen.size * slope.sign()).detach().requires_grad_()
