"""M-Mixup: mix pairs of graphs after the readout, and their labels alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.pairing import reordered
from outland.methods.parts.ranking import permutation
from outland.methods.parts.risk import label_losses, mean_over
from outland.settings import check_ranges


@dataclass(frozen=True)
class MMixupSettings(MethodSettings):
    """Hyper-parameters of M-Mixup.

    Args:
        alpha: of the Beta(α, α) that the share of the first graph is drawn from, once a batch; small is weak mixing.
    """

    alpha: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", alpha=(1e-3, None))


class MMixup(ERM):
    r"""Mixup for Node and Graph Classification (Wang et al., WWW 2021).

    .. math:: \tilde h = \lambda h + (1-\lambda) h_\pi, \quad
              \min_\theta \lambda\,\ell(\Phi(\tilde h), y) + (1-\lambda)\,\ell(\Phi(\tilde h), y_\pi)

    One share and one order of the batch for features and labels. A label counts where both graphs know theirs.
    """

    name: ClassVar[str] = "m-mixup"
    family: ClassVar[str] = "augmentation"
    citation: ClassVar[str] = "Wang et al., WWW 2021"
    Settings: ClassVar[type[MethodSettings]] = MMixupSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (0.2, 0.4, 1.0, 2.0, 4.0)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mixed loss on mixed embeddings."""
        return {"risk": self.mixed(batch, self.share(batch), permutation(batch, self.random))}

    def share(self, batch: GraphBatch) -> Tensor:
        """λ, from two gamma draws."""
        shape = torch.full((2,), self.settings.alpha, device=batch.x.device, dtype=torch.double)
        draws = torch._standard_gamma(shape, generator=self.random).clamp(min=1e-12)
        return (draws[0] / draws.sum()).to(next(self.parameters()).dtype)

    def mixed(self, batch: GraphBatch, share: Tensor, order: Tensor) -> Tensor:
        """The loss for a given share and order."""
        h = self.classifier.embed(batch)
        partner, other = reordered(h, batch, order)
        logits = self.classifier.head(share * h + (1 - share) * partner, batch)
        own, known = label_losses(logits, batch, self.schema.task)
        theirs, known_other = label_losses(logits, other, self.schema.task)
        return mean_over(share * own + (1 - share) * theirs, known & known_other)
