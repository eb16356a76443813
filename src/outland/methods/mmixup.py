"""M-Mixup: mix pairs of graphs after the readout, and their labels in the same proportion."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.base import GraphEmbeddings, MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.pairing import permutation, reordered
from outland.methods.parts.risk import label_losses, mean_over
from outland.settings import settings


@settings("method")
class MMixupSettings(MethodSettings):
    """Hyper-parameters of M-Mixup.

    Args:
        alpha: of the Beta(α, α) that the share of the first graph is drawn from, once a batch; small is weak mixing.
    """

    alpha: Annotated[float, Field(ge=1e-3)] = 0.4


class MMixup(ERM[MMixupSettings]):
    r"""Mixup for Node and Graph Classification (Wang et al., WWW 2021).

    .. math:: \tilde h = \lambda h + (1-\lambda) h_\pi, \quad
              \min_\theta \lambda\,\ell(\Phi(\tilde h), y) + (1-\lambda)\,\ell(\Phi(\tilde h), y_\pi)

    One share and one order of the batch for features and labels. A label counts where both graphs know theirs.
    """

    name = "m-mixup"
    family = "augmentation"
    citation = "Wang et al., WWW 2021"
    learns_augmentation = True
    augmented_together = 32  # one share and one order for as many as a training batch has
    space = {"alpha": (0.2, 0.4, 1.0, 2.0, 4.0)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mixed loss on mixed embeddings."""
        return {"risk": self.mixed_risk(batch, self.share(batch), permutation(batch, self.random))}

    def share(self, batch: GraphBatch) -> Tensor:
        """λ, from two gamma draws."""
        shape = torch.full((2,), self.settings.alpha, device=batch.x.device, dtype=torch.double)
        draws = torch._standard_gamma(shape, generator=self.random).clamp(min=1e-12)
        return (draws[0] / draws.sum()).to(next(self.parameters()).dtype)

    def mixed_risk(self, batch: GraphBatch, share: Tensor, order: Tensor) -> Tensor:
        """The mixed loss for a given share and order."""
        h = self.classifier.embed(batch)
        partner_h, partners = reordered(h, batch, order)
        logits = self.classifier.head(share * h + (1 - share) * partner_h, batch)
        losses, known = label_losses(logits, batch, self.schema.task)
        partner_losses, partner_known = label_losses(logits, partners, self.schema.task)
        return mean_over(share * losses + (1 - share) * partner_losses, known & partner_known)

    def augment(self, batch: GraphBatch) -> GraphEmbeddings:
        """Mixed embeddings, with the label of the graph that has the larger share."""
        h, share, order = self.classifier.embed(batch), self.share(batch), permutation(batch, self.random)
        return GraphEmbeddings(share * h + (1 - share) * h[order], batch.y if share >= 0.5 else batch.y[order])

    def unaugmented(self, batch: GraphBatch) -> GraphEmbeddings:
        """Embeddings that are not mixed."""
        return GraphEmbeddings(self.classifier.embed(batch), batch.y)
