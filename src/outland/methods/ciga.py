"""CIGA: the subgraph that graphs of one class have in common, in whatever environment."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Progress, Terms
from outland.methods.parts.contrast import label_pairs, pair_contrast
from outland.methods.parts.risk import label_losses, mean_over
from outland.methods.parts.subgraphs import Parts, SubgraphMethod, SubgraphSettings
from outland.nn import BackboneSettings, Head, frozen_running_stats
from outland.settings import NonNegative, settings

Side = Literal["worse", "better"]
Divisor = Literal["chosen", "known"]


@settings("method")
class CIGASettings(SubgraphSettings):
    """Hyper-parameters of CIGA; the defaults are those of version 2.

    Args:
        alpha: α, weight of the contrastive loss.
        beta: β, weight of the complement's loss; 0 is version 1, which has no complement.
        temperature: τ of the contrastive loss.
        contrast: what it compares: the classifier's embedding of the rationale (`classifier`), or the score
            network's node embeddings pooled over the rationale (`scorer`), as most released scripts do.
        hinge_side: where the complement's loss counts: where it does `worse` than the rationale, or `better`.
        hinge_mean: over the labels where it counts (`chosen`), or all that are `known`.
        hinge_reach: what the complement's loss trains: `all` that made the complement, or its `head` alone, as in
            the authors' code, where inference then does not depend on β.
    """

    alpha: NonNegative = 4.0
    beta: NonNegative = 1.0
    temperature: Annotated[float, Field(ge=1e-3)] = 1.0
    contrast: Literal["classifier", "scorer"] = "classifier"
    hinge_side: Side = "worse"
    hinge_mean: Divisor = "chosen"
    hinge_reach: Literal["all", "head"] = "all"


class CIGA(SubgraphMethod[CIGASettings]):
    r"""Learning Causally Invariant Representations for OOD Generalization on Graphs (Chen et al., NeurIPS 2022).

    Edge scores split each graph into a rationale, the best share r of its edges, and a complement. Version 1 asks that
    the rationales of one class be alike; version 2 also trains the complement to predict, where it is worse at it:

    .. math:: \min\; \mathbb{E}\,\ell_c + \alpha\,L_{con} + \beta\,
              \frac{\sum_i 1[\ell_{s,i} > \ell_{c,i}]\,\ell_{s,i}}{\sum_i 1[\ell_{s,i} > \ell_{c,i}]},
              \quad \ell_c = \ell(f_c(h_C), y), \; \ell_s = \ell(f_s(h_S), y)

    with the supervised contrastive loss :math:`L_{con}` of the rationales' embeddings (see `supervised_contrast`; tasks
    are contrasted separately, and regression targets only where they are equal). Predictions rest on the rationale.
    """

    name = "ciga"
    family = "graph"
    citation = "Chen et al., NeurIPS 2022"
    presets = {
        "v1": lambda: CIGASettings(beta=0.0),
        "v2": CIGASettings,
        "molecules": lambda: CIGASettings(ratio=0.8),
    }
    space = {"ratio": (0.25, 0.5, 0.8), "alpha": (0.5, 1.0, 4.0, 16.0), "beta": (0.5, 1.0, 2.0)}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: CIGASettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.environment_head = Head(backbone, schema.task.outputs) if self.settings.beta else None

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The rationale's risk, the contrastive loss of rationales and, in version 2, the complement's loss."""
        settings, parts = self.settings, self.parts(batch)
        h = self.embed_rationale(batch, parts)
        losses, known = label_losses(self.classifier.head(h, batch), batch, self.schema.task)
        labels = batch.y.reshape(len(h), -1)
        if settings.contrast == "scorer":
            h = self.classifier.readout(parts.features, batch, parts.rationale.node, masked=True)
        contrast = supervised_contrast(h, labels, known, settings.temperature)
        terms = {"rationale": mean_over(losses, known), "contrast": settings.alpha * contrast}
        if self.environment_head is not None:
            complement = self.complement_losses(batch, parts)
            terms["hinge"] = settings.beta * hinge(losses, complement, known, settings.hinge_side, settings.hinge_mean)
        return terms

    def complement_losses(self, batch: GraphBatch, parts: Parts) -> Tensor:
        """The loss of each label, predicted from the complement `[B, T]`."""
        assert self.environment_head is not None
        with frozen_running_stats(self.classifier):
            h = self.embed_part(batch, parts.complement, parts)
        h = h.detach() if self.settings.hinge_reach == "head" else h
        losses, _ = label_losses(self.environment_head(h, batch), batch, self.schema.task)
        return losses


def hinge(
    rationale: Tensor, complement: Tensor, known: Tensor, side: Side = "worse", over: Divisor = "chosen"
) -> Tensor:
    """Mean of the complement's losses `[B, T]` where they are on that side of the rationale's; 0 if none is."""
    counts = (complement > rationale) if side == "worse" else (complement < rationale)
    counts = (counts & known).detach()
    divisor = counts if over == "chosen" else known
    return torch.where(counts, complement, 0).sum() / divisor.sum().clamp(min=1)


def supervised_contrast(h: Tensor, labels: Tensor, known: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Supervised contrastive loss (Khosla et al., NeurIPS 2020); 0 where no label occurs twice.

    .. math:: -\operatorname*{mean}_{i:\,P(i) \ne \emptyset} \frac1{|P(i)|} \sum_{j \in P(i)}
              \Big[A_{ij} - \log\sum_{k \ne i} e^{A_{ik}}\Big], \quad
              A_{ij} = \frac{h_i^\top h_j}{\tau\,\|h_i\| \|h_j\|}, \quad P(i) = \{j \ne i: y_j = y_i\}

    Each task contrasts the graphs whose label it knows, among themselves; the mean is over all anchors of all tasks,
    from embeddings `[B, d]`, and labels and which of them count `[B, T]`.
    """
    counted, alike = label_pairs(labels, known)
    return pair_contrast(h, counted & alike, counted, temperature)
