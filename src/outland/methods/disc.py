"""DisC: a second network takes the shortcuts, so that the first need not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Progress, Terms
from outland.methods.parts.pairing import reordered
from outland.methods.parts.ranking import permutation
from outland.methods.parts.risk import label_losses, mean_over
from outland.nn import BackboneSettings, GraphNet, Head, Mask, Masker
from outland.settings import check_ranges


@dataclass(frozen=True)
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

    q: float = 0.7
    bias_weight: float = 1.0
    swap_weight: float = 15.0
    swap_after: float = 0.5
    weights: Literal["sample", "batch"] = "sample"
    mask_nodes: bool = True
    masker: Literal["gcn", "backbone"] = "gcn"
    masker_layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", q=(1e-3, 1), bias_weight=(0, None), swap_weight=(0, None), swap_after=(0, 1))
        check_ranges(self, "method", masker_layers=(1, None))


class DisC(Method):
    r"""Debiasing Graph Neural Networks via Learning Disentangled Causal Substructure (Fan et al., NeurIPS 2022).

    Complementary masks c and 1 - c feed two networks, with embeddings z_c and z_b. The bias branch is trained by a
    loss that favours what is easy; the causal one on what the other finds hard, by weights W without a gradient:

    .. math::
        L_D = \mathbb{E}\big[W\,\ell_c + \lambda_d\,\mathrm{GCE}_q(\ell_b)\big], \quad
        W = \frac{\ell_b}{\ell_b + \ell_c}, \quad \mathrm{GCE}_q(\ell) = \frac{1 - p_y^q}{q}, \quad p_y = e^{-\ell}

    with :math:`\ell_c = \ell(C_c[z_c; \bar z_b], y)` and :math:`\ell_b = \ell(C_b[\bar z_c; z_b], y)`, a bar where
    no gradient flows. After epoch T the same losses on bias embeddings swapped across the batch, whose labels go
    with them in the bias branch, are added with weight :math:`\lambda_G`. The probability of a label is
    :math:`e^{-\ell}` for classes and yes/no questions exactly; for real numbers it is a Gaussian's, up to a constant.
    Since :math:`W\ell_c < \ell_b`, graphs that the bias branch gets right teach the causal one next to nothing. Where
    the bias branch can learn the whole task, as under a mere covariate shift, little is left; the public code is spared
    this by having one W for a whole batch (`disc:released`).

    The losses do not reach across the branches, and the masks learn from both. Predictions come from
    :math:`C_c[z_c; z_b]`.
    """

    name: ClassVar[str] = "disc"
    family: ClassVar[str] = "graph"
    citation: ClassVar[str] = "Fan et al., NeurIPS 2022"
    Settings: ClassVar[type[MethodSettings]] = DisCSettings
    presets: ClassVar[Mapping[str, Callable[[], MethodSettings]]] = {
        "released": lambda: DisCSettings(weights="batch", bias_weight=0.7),
    }
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "swap_weight": (1.0, 5.0, 15.0),
        "swap_after": (0.25, 0.5),
        "bias_weight": (0.5, 1.0),
    }

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: DisCSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        chosen: DisCSettings = self.settings
        kind = "gcn" if chosen.masker == "gcn" else backbone.kind
        self.masker = Masker(replace(backbone, kind=kind, layers=chosen.masker_layers), schema, "mlp")
        self.classifier, self.bias = branch(backbone, schema), branch(backbone, schema)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Both branches on their own graphs and, late enough, with the bias of other graphs."""
        chosen: DisCSettings = self.settings
        causal, bias = self.split(batch)
        hard, known = self.losses(self.classifier, causal, bias.detach(), batch)
        easy, _ = self.losses(self.bias, causal.detach(), bias, batch)
        weights = difficulty(easy, hard, known, chosen.weights == "batch")
        terms = {
            "causal": mean_over(weights * hard, known),
            "bias": chosen.bias_weight * mean_over(generalised(easy, chosen.q), known),
        }
        if progress.branch(lambda now: now.epoch > chosen.swap_after * now.epochs):
            swapped, other = reordered(bias, batch, permutation(batch, self.random))
            hard, known = self.losses(self.classifier, causal, swapped.detach(), batch)
            easy, known_other = self.losses(self.bias, causal.detach(), swapped, other)
            apart = mean_over(generalised(easy, chosen.q), known_other)
            terms["swapped_causal"] = chosen.swap_weight * mean_over(weights * hard, known)
            terms["swapped_bias"] = chosen.swap_weight * chosen.bias_weight * apart
        return terms

    def split(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Embeddings z_c and z_b of the two parts `[B, d]`."""
        masks = self.masks(batch)
        return self.classifier.embed(batch, masks["stable"]), self.bias.embed(batch, masks["environment"])

    def losses(self, side: GraphNet, causal: Tensor, bias: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Loss of each label when one side's head reads both embeddings `[B, T]`, and which are known."""
        return label_losses(side.head(torch.cat([causal, bias], 1), batch), batch, self.schema.task)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits of the causal branch, which reads both embeddings."""
        logits: Tensor = self.classifier.head(torch.cat(self.split(batch), 1), batch)
        return logits

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """What each branch reads; where nodes are not masked both read all of them."""
        stable = self.masker(batch).symmetric(batch)
        rest = stable.complement()
        if not self.settings.mask_nodes:
            stable, rest = Mask.on_edges(stable.edge, batch), Mask.on_edges(rest.edge, batch)
        return {"stable": stable, "environment": rest}


def branch(backbone: BackboneSettings, schema: Schema) -> GraphNet:
    """A classifier whose head reads two embeddings side by side."""
    net = GraphNet(backbone, schema)
    net.head = Head(replace(backbone, width=2 * backbone.width), schema.task.outputs)
    return net


def difficulty(easy: Tensor, hard: Tensor, known: Tensor, whole: bool = False) -> Tensor:
    """W `[B, T]`: the share of the bias branch in the loss of each label, or of the `whole` batch; a given number."""
    if whole:
        easy, hard = mean_over(easy, known).expand_as(easy), mean_over(hard, known).expand_as(hard)
    return (easy / (easy + hard + 1e-8)).detach()


def generalised(losses: Tensor, q: float) -> Tensor:
    """The generalised cross-entropy (1 - p^q)/q of labels with cross-entropy -log p; its gradient is p^q times that."""
    return -torch.expm1(-q * losses) / q
