"""Adversarial Invariant Augmentation: explore environments, shelter what is stable."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from outland.errors import OutlandError
from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Phase, Progress, Terms
from outland.methods.parts.masks import random_mask, ratio_penalty
from outland.nn import BackboneSettings, GraphNet, Mask, Masker, build_encoder, frozen_running_stats
from outland.ops import Indicator, Rows
from outland.settings import Count, Fraction, NonNegative, PositiveInt, settings


@settings("method")
class AIASettings(MethodSettings):
    r"""Hyper-parameters of AIA; the defaults are those of the public code on Motif.

    Args:
        lr: β, of the classifier θ and the stable feature generator θ₂.
        lr_augmenter: α, of the adversarial augmenter θ₁.
        gamma: γ, weight of the distance of an augmented graph's embedding from the original's.
        lambda_s: share of nodes and edges that the stable mask should keep.
        lambda_a_node, lambda_a_edge: share that the adversarial mask should keep.
        stable_weight, adversarial_weight: of the two regularisers; the paper has 1.
        distance: between the embeddings of a graph and its augmented form: `squared`, or its `mean` over coordinates.
        indicator: second term of the regulariser: `hard`, as printed, a constant; `soft`, with a gradient; or `none`.
        front_layers: layers that read the unmasked graph before the masks act; 0 masks A and X themselves.
        masker_layers: depth of augmenter and generator.
        mask_head: their node and edge heads, `linear` or the paper's `mlp`.
        update: `simultaneous` gradients, as in the paper; or `sequential`, as in the public code: θ₁ after θ and θ₂.
        adversary: `learned`; `none`, whose mask keeps everything; `random`, which drops `drop` of it (RDIA).
        stable: learn the stable mask; without it everything is left to the adversary.
        statistics: of batch norm, from `both` passes, as in the public code; or from that of the `stable` part alone,
            which is what is predicted from. Where masks act on the input, mixed ones spoil what was learned.
        drop: share of nodes and edges that the random adversary drops.
    """

    lr_augmenter: NonNegative = 5e-3
    gamma: NonNegative = 0.2
    lambda_s: Fraction = 0.5
    lambda_a_node: Fraction = 1.0
    lambda_a_edge: Fraction = 0.8
    stable_weight: NonNegative = 1.0
    adversarial_weight: NonNegative = 0.5
    distance: Literal["squared", "mean"] = "mean"
    indicator: Indicator = "hard"
    front_layers: Count = 2
    masker_layers: PositiveInt = 2
    mask_head: Literal["linear", "mlp"] = "linear"
    update: Literal["sequential", "simultaneous"] = "sequential"
    adversary: Literal["learned", "none", "random"] = "learned"
    stable: bool = True
    statistics: Literal["both", "stable"] = "both"
    drop: Fraction = 0.2


# The paper's, on Motif. It does not say whose statistics batch norm has; only those of the predicted part serve.
PAPER = AIASettings(
    lr=5e-3,
    lr_augmenter=1e-3,
    lambda_a_edge=1.0,
    adversarial_weight=1.0,
    distance="squared",
    front_layers=0,
    mask_head="mlp",
    update="simultaneous",
    statistics="stable",
)


class AIA(Method[AIASettings]):
    r"""Unleashing the Power of Graph Data Augmentation on Covariate Distribution Shift (Sui et al., NeurIPS 2023).

    The augmenter T₁ learns masks that raise the classifier's risk without moving the graph far; the generator T₂ learns
    which part is stable; the classifier f is trained on that part alone and in the augmented environment,
    :math:`\tilde M = (1 - M_{sta}) \odot M_{adv} + M_{sta}` (Algorithm 1, equations 6 to 10):

    .. math::
        \max_{\theta_1}\; & \ell(f(T_1(g)), y) - \gamma\,c(T_1(g), g) - r(M_{adv}, \lambda_a) \\
        \min_{\theta, \theta_2}\; & \ell(f(T_2(g)), y) + \ell(f(\tilde g), y) + r(M_{sta}, \lambda_s)

    The distance c is between graph embeddings. Predictions rest on the stable part. "Line" is one of Algorithm 1.
    """

    name = "aia"
    family = "augmentation"
    citation = "Sui et al., NeurIPS 2023"
    paper = staticmethod(partial(replace, PAPER))
    released = AIASettings
    presets = {
        "paper": paper,
        "released": released,
        "no-adversary": partial(released, adversary="none"),
        "no-stable": partial(released, stable=False),
        "rdia": partial(released, adversary="random"),
    }
    space = {
        "lr": (1e-2, 5e-3, 1e-3),
        "lr_augmenter": (1e-2, 5e-3, 1e-3),
        "lambda_s": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        "gamma": (0.01, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0),
    }
    training_only = ("augmenter",)
    learns_augmentation = True

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: AIASettings | None = None) -> None:
        """Line 1: θ is `front` and `classifier`, θ₁ `augmenter`, θ₂ `generator`."""
        super().__init__(schema, backbone, settings)
        settings, front, layers = self.settings, self.settings.front_layers, backbone.layers
        if front >= layers:
            raise OutlandError(f"method.front_layers ({front}) must be at least 0 and below backbone.layers ({layers})")
        masker = replace(backbone, layers=settings.masker_layers)
        self.front = build_encoder(replace(backbone, layers=front), schema.node, schema.edge) if front else None
        self.classifier = GraphNet(replace(backbone, layers=layers - front), schema, backbone.width if front else None)
        self.generator = Masker(masker, schema, settings.mask_head) if settings.stable else None
        self.augmenter = Masker(masker, schema, settings.mask_head) if settings.adversary == "learned" else None
        self.update, self.has_masks, self.mask_depth = settings.update, settings.stable, front

    def adversarial_mask(self, batch: GraphBatch) -> Mask:
        """Line 5, without a gradient to θ₁: learned, random, or full."""
        if self.settings.adversary == "random":
            return random_mask(batch, self.settings.drop, self.random, next(self.parameters()).dtype)
        if self.augmenter is None:
            return Mask.full(batch, 1.0, next(self.parameters()).dtype)
        with torch.no_grad():
            mask: Mask = self.augmenter(batch)
        return mask

    def adversarial_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        r"""Line 11, equations 7 and 9: minus :math:`L_{adv} - L_{reg_1}`, of θ₁."""
        assert self.augmenter is not None
        settings, states, edge_states = self.settings, *self.hidden_states(batch)
        adversarial = self.augmenter(batch)
        augmented = self.classifier.embed(batch, adversarial, states, edge_states)
        with torch.no_grad():
            original = self.classifier.embed(batch, None, states, edge_states)
        squares = mse_loss(augmented, original, reduction="none")
        distance = squares.sum(1) if settings.distance == "squared" else squares.mean(1)
        ratio = ratio_penalty(adversarial, batch, settings.lambda_a_node, settings.lambda_a_edge, settings.indicator)
        return {
            "adversarial": -self.risk(self.classifier.head(augmented, batch), batch),
            "distance": settings.gamma * batch.mean_graphs(distance),
            "adversarial_ratio": settings.adversarial_weight * ratio,
        }

    def stable_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        r"""Lines 6 to 9 and 12, equations 8 and 10: :math:`L_{sta} + L_{reg_2}`, of θ and θ₂."""
        settings, states, edge_states = self.settings, *self.hidden_states(batch)
        adversarial = self.adversarial_mask(batch)
        if self.generator is None:
            return {"augmented": self.risk(self.classifier(batch, adversarial, states, edge_states), batch)}
        stable = self.generator(batch)
        merged = stable.merge(adversarial)
        ratio = ratio_penalty(stable, batch, settings.lambda_s, settings.lambda_s, settings.indicator)
        logits = self.classifier(batch, stable, states, edge_states)
        with frozen_running_stats(self.classifier) if settings.statistics == "stable" else nullcontext():
            augmented_logits = self.classifier(batch, merged, states, edge_states)
        return {
            "stable": self.risk(logits, batch),
            "augmented": self.risk(augmented_logits, batch),
            "stable_ratio": settings.stable_weight * ratio,
        }

    def phases(self) -> list[Phase]:
        """Lines 13 and 14: θ₁ at rate α, θ and θ₂ at rate β; the public code has them in the other order."""
        modules = tuple(module for module in (self.front, self.classifier, self.generator) if module is not None)
        stable = Phase("stable", modules, self.stable_loss, self.settings.lr)
        if self.augmenter is None:
            return [stable]
        adversarial = Phase("adversarial", (self.augmenter,), self.adversarial_loss, self.settings.lr_augmenter)
        return [adversarial, stable] if self.update == "simultaneous" else [stable, adversarial]

    def hidden_states(self, batch: GraphBatch) -> tuple[Tensor | None, list[Rows]]:
        """Node states after the front, None without one, and edge states: the classifier's inputs."""
        return (self.front(batch) if self.front is not None else None), self.classifier.encoder.edge_states(batch)

    def readout(self, batch: GraphBatch) -> Tensor:
        """Embeddings of the stable part; of the whole graph where no stable part is learned."""
        stable = None if self.generator is None else self.generator(batch)
        return self.classifier.embed(batch, stable, *self.hidden_states(batch))

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The stable, adversarial and merged masks, symmetric."""
        masks = {"adversarial": self.adversarial_mask(batch)}
        if self.generator is not None:
            stable: Mask = self.generator(batch)
            masks = {"stable": stable, **masks, "merged": stable.merge(masks["adversarial"])}
        return {name: mask.symmetric(batch) for name, mask in masks.items()}

    def augment(self, batch: GraphBatch) -> Mask:
        """The merged mask; the adversarial one where no stable part is learned."""
        masks = self.masks(batch)
        return masks.get("merged", masks["adversarial"])
