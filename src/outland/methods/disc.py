"""DisC: a second network learns the bias, and the first is trained on what is hard for the second."""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.pairing import permutation, reordered
from outland.methods.parts.risk import label_losses, mean_over
from outland.nn import BackboneSettings, GraphNet, Head, Mask, Masker
from outland.settings import Fraction, NonNegative, PositiveInt, settings


@settings("method")
class DisCSettings(MethodSettings):
    """Hyper-parameters of DisC.

    Args:
        q: of the generalised cross-entropy; near 0 it is the cross-entropy, at 1 it is 1 - p.
        bias_weight: λ_d, of the bias branch's losses; the public code has q times as much, by its form of the loss.
        swap_weight: λ_G, of the losses with swapped bias; the public code has 15 for GIN and 10 for GCN and GCNII.
        swap_after: T, share of the epochs after which bias embeddings are swapped.
        weights: one W a `sample`, as the paper says; or one a `batch`, as in the public code's GIN and GCN.
        mask_nodes: mask node inputs as well as edges; the paper speaks of edges, the public code masks both.
        masker: layers of the mask network: the original's `gcn`, or those of the `backbone`.
        masker_layers: depth of the mask network.
    """

    q: Annotated[float, Field(ge=1e-3, le=1)] = 0.7
    bias_weight: NonNegative = 1.0
    swap_weight: NonNegative = 15.0
    swap_after: Fraction = 0.5
    weights: Literal["sample", "batch"] = "sample"
    mask_nodes: bool = True
    masker: Literal["gcn", "backbone"] = "gcn"
    masker_layers: PositiveInt = 2


class DisC(Method[DisCSettings]):
    r"""Debiasing Graph Neural Networks via Learning Disentangled Causal Substructure (Fan et al., NeurIPS 2022).

    Complementary masks c and 1 - c are the inputs of two networks, with embeddings z_c and z_b. The bias branch is
    trained by a loss that favours easy graphs; the causal one on those that are hard for the other, by weights W
    without a gradient:

    .. math::
        L_D = \mathbb{E}\big[W\,\ell_c + \lambda_d\,\mathrm{GCE}_q(\ell_b)\big], \quad
        W = \frac{\ell_b}{\ell_b + \ell_c}, \quad \mathrm{GCE}_q(\ell) = \frac{1 - p_y^q}{q}, \quad p_y = e^{-\ell}

    with :math:`\ell_c = \ell(C_c[z_c; \bar z_b], y)` and :math:`\ell_b = \ell(C_b[\bar z_c; z_b], y)`, a bar where
    no gradient flows. After epoch T the same losses on bias embeddings permuted within the batch, with their labels in
    the bias branch, are added with weight :math:`\lambda_G`. The probability of a label is :math:`e^{-\ell}` for
    classes and yes/no questions exactly; for real numbers it is a Gaussian's, up to a constant. Since
    :math:`W\ell_c < \ell_b`, graphs that the bias branch predicts correctly hardly train the causal one. Where the
    bias branch can learn the whole task, as under a mere covariate shift, little is left; the public code avoids this
    by one W for a whole batch (`disc:released`).

    Each loss trains its own branch, and both train the masks. Predictions come from :math:`C_c[z_c; z_b]`.
    """

    name = "disc"
    family = "graph"
    citation = "Fan et al., NeurIPS 2022"
    presets = {"released": lambda: DisCSettings(weights="batch", bias_weight=0.7)}
    space = {"swap_weight": (1.0, 5.0, 15.0), "swap_after": (0.25, 0.5), "bias_weight": (0.5, 1.0)}

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: DisCSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        kind = "gcn" if self.settings.masker == "gcn" else backbone.kind
        self.masker = Masker(replace(backbone, kind=kind, layers=self.settings.masker_layers), schema, "mlp")
        self.classifier, self.bias = branch(backbone, schema), branch(backbone, schema)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Losses of both branches and, after epoch T, those with permuted bias embeddings."""
        settings = self.settings
        causal, bias = self.split(batch)
        causal_losses, known = self.losses(self.classifier, causal, bias.detach(), batch)
        bias_losses, _ = self.losses(self.bias, causal.detach(), bias, batch)
        weights = difficulty(bias_losses, causal_losses, known, settings.weights == "batch")
        terms = {
            "causal": mean_over(weights * causal_losses, known),
            "bias": settings.bias_weight * mean_over(generalized_cross_entropy(bias_losses, settings.q), known),
        }
        if progress.branch(lambda now: now.epoch > settings.swap_after * now.epochs):
            swapped, partners = reordered(bias, batch, permutation(batch, self.random))
            causal_losses, known = self.losses(self.classifier, causal, swapped.detach(), batch)
            bias_losses, partner_known = self.losses(self.bias, causal.detach(), swapped, partners)
            bias_risk = mean_over(generalized_cross_entropy(bias_losses, settings.q), partner_known)
            terms["swapped_causal"] = settings.swap_weight * mean_over(weights * causal_losses, known)
            terms["swapped_bias"] = settings.swap_weight * settings.bias_weight * bias_risk
        return terms

    def split(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Embeddings z_c and z_b of the two parts `[B, d]`."""
        masks = self.masks(batch)
        return self.classifier.embed(batch, masks["stable"]), self.bias.embed(batch, masks["environment"])

    def losses(self, branch: GraphNet, causal: Tensor, bias: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Loss of each label when one branch's head reads both embeddings `[B, T]`, and which are known."""
        return label_losses(branch.head(torch.cat([causal, bias], 1), batch), batch, self.schema.task)

    def readout(self, batch: GraphBatch) -> Tensor:
        """Both embeddings side by side `[B, 2d]`, which the causal branch's head reads."""
        return torch.cat(self.split(batch), 1)

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The masks of the causal and the bias branch; where nodes are not masked both read all of them."""
        stable = self.masker(batch).symmetric(batch)
        environment = stable.complement()
        if not self.settings.mask_nodes:
            stable, environment = Mask.on_edges(stable.edge, batch), Mask.on_edges(environment.edge, batch)
        return {"stable": stable, "environment": environment}


def branch(backbone: BackboneSettings, schema: Schema) -> GraphNet:
    """A classifier whose head reads two embeddings side by side."""
    net = GraphNet(backbone, schema)
    net.head = Head(replace(backbone, width=2 * backbone.width), schema.task.outputs)
    return net


def difficulty(bias: Tensor, causal: Tensor, known: Tensor, whole: bool = False) -> Tensor:
    """W `[B, T]`, detached: the bias branch's share of the two losses of each label, or of the `whole` batch."""
    if whole:
        bias, causal = mean_over(bias, known).expand_as(bias), mean_over(causal, known).expand_as(causal)
    return (bias / (bias + causal + 1e-8)).detach()


def generalized_cross_entropy(losses: Tensor, q: float) -> Tensor:
    """The generalised cross-entropy (1 - p^q)/q of labels with cross-entropy -log p; its gradient is p^q times that."""
    return -torch.expm1(-q * losses) / q
