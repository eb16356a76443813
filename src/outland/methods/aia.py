"""Adversarial Invariant Augmentation: explore environments, shelter what is stable."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from outland.errors import OutlandError
from outland.graphs import GraphBatch, Schema
from outland.methods.base import Method, MethodSettings, Phase, Progress, Terms
from outland.methods.parts.random_masks import random_mask
from outland.methods.parts.ratio import Indicator, ratio_penalty
from outland.nn import BackboneSettings, Encoder, GraphNet, Mask, Masker, statistics_kept
from outland.settings import check_ranges


@dataclass(frozen=True)
class AIASettings(MethodSettings):
    r"""Hyper-parameters of AIA; the defaults are those of `AIA.released()` on Motif.

    Args:
        lr: β, of the classifier θ and the stable feature generator θ₂.
        lr_augmenter: α, of the adversarial augmenter θ₁.
        gamma: γ, price of moving an augmented graph's embedding away from the original's.
        lambda_s: share of nodes and edges that the stable mask should keep.
        lambda_a_node, lambda_a_edge: share that the adversarial mask should keep.
        stable_weight, adversarial_weight: of the two regularisers; the paper has 1.
        distance: between the embeddings of a graph and of its augmented form, `squared`, or its `mean` over the d
            coordinates.
        indicator: second term of the regulariser: `hard`, as printed, which is a constant; `soft`, which has a gradient
            and asks that as large a share of the entries lies above one half; or `none`.
        front_layers: layers that read the unmasked graph before the masks act; 0 masks A and X themselves.
        masker_layers: depth of augmenter and generator.
        mask_head: their node and edge heads, `linear` or the paper's `mlp`.
        update: `simultaneous`, as in the paper: both gradients are taken at the same parameters; or `sequential`, as in
            the public code, which moves θ and θ₂, then θ₁ against what they have become.
        adversary: `learned`; `none`, whose mask keeps everything; `random`, which drops `drop` of it (RDIA).
        stable: learn the stable mask; without it everything is left to the adversary.
        statistics: whose running statistics batch norm has, `both`, as in the public code: those of the stable part
            alone and in its augmented environment, mixed; or `stable`: of the stable part alone, which is what is
            predicted from. Where masks act on the input, mixed ones leave next to nothing of what was learned.
        drop: share of nodes and edges that the random adversary drops.
    """

    lr: float = 1e-3
    lr_augmenter: float = 5e-3
    gamma: float = 0.2
    lambda_s: float = 0.5
    lambda_a_node: float = 1.0
    lambda_a_edge: float = 0.8
    stable_weight: float = 1.0
    adversarial_weight: float = 0.5
    distance: Literal["squared", "mean"] = "mean"
    indicator: Indicator = "hard"
    front_layers: int = 2
    masker_layers: int = 2
    mask_head: Literal["linear", "mlp"] = "linear"
    update: Literal["sequential", "simultaneous"] = "sequential"
    adversary: Literal["learned", "none", "random"] = "learned"
    stable: bool = True
    statistics: Literal["both", "stable"] = "both"
    drop: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", lr_augmenter=(0, None), gamma=(0, None), front_layers=(0, None))
        check_ranges(self, "method", lambda_s=(0, 1), lambda_a_node=(0, 1), lambda_a_edge=(0, 1), drop=(0, 1))
        check_ranges(self, "method", stable_weight=(0, None), adversarial_weight=(0, None), masker_layers=(1, None))


class AIA(Method):
    r"""Unleashing the Power of Graph Data Augmentation on Covariate Distribution Shift (Sui et al., NeurIPS 2023).

    Two mask networks work against each other. The augmenter T₁ looks for masks that hurt the classifier without
    moving the graph far; the generator T₂ learns which part is stable; the classifier is trained on that part
    alone and on that part in the augmented environment,
    :math:`\tilde M = (1 - M_{sta}) \odot M_{adv} + M_{sta}` (Algorithm 1, equations 6 to 10):

    .. math::
        \max_{\theta_1}\; & \ell(f(T_1(g)), y) - \gamma\,c(T_1(g), g) - r(M_{adv}, \lambda_a) \\
        \min_{\theta, \theta_2}\; & \ell(f(T_2(g)), y) + \ell(f(\tilde g), y) + r(M_{sta}, \lambda_s)

    The distance c is taken between graph embeddings. Predictions rest on the stable part. In each phase the
    side that moves is in training mode and the side that stands still is in evaluation mode.
    """

    name: ClassVar[str] = "aia"
    family: ClassVar[str] = "augmentation"
    citation: ClassVar[str] = "Sui et al., NeurIPS 2023"
    Settings: ClassVar[type[MethodSettings]] = AIASettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "lr": (1e-2, 5e-3, 1e-3),
        "lr_augmenter": (1e-2, 5e-3, 1e-3),
        "lambda_s": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        "gamma": (0.01, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0),
    }
    presets: ClassVar[Mapping[str, Callable[[], MethodSettings]]] = {
        "paper": lambda: AIA.paper(),  # noqa: PLW0108 (the class is not yet there to be asked)
        "released": lambda: AIA.released(),  # noqa: PLW0108
        "no-adversary": lambda: AIA.released(adversary="none"),
        "no-stable": lambda: AIA.released(stable=False),
        "rdia": lambda: AIA.released(adversary="random"),
    }
    training_only: ClassVar[tuple[str, ...]] = ("augmenter",)

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: AIASettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        chosen: AIASettings = self.settings
        if not 0 <= chosen.front_layers < backbone.layers:
            raise OutlandError(
                f"method.front_layers ({chosen.front_layers}) must be at least 0 "
                f"and below backbone.layers ({backbone.layers})"
            )
        self.update = chosen.update
        back = replace(backbone, layers=backbone.layers - chosen.front_layers)
        masker = replace(backbone, layers=chosen.masker_layers)
        self.front: Encoder | None = None
        if chosen.front_layers:
            self.front = Encoder(replace(backbone, layers=chosen.front_layers), schema.node, schema.edge)
        self.classifier = GraphNet(back, schema, backbone.width if chosen.front_layers else None)
        self.generator = Masker(masker, schema, chosen.mask_head) if chosen.stable else None
        self.augmenter = Masker(masker, schema, chosen.mask_head) if chosen.adversary == "learned" else None

    def phases(self) -> list[Phase]:
        """The stable side moves, and the adversary if there is one."""
        moves = tuple(part for part in (self.front, self.classifier, self.generator) if part is not None)
        stable = Phase("stable", moves, self.stable_loss, self.settings.lr)
        if self.augmenter is None:
            return [stable]
        adversarial = Phase("adversarial", (self.augmenter,), self.adversarial_loss, self.settings.lr_augmenter)
        return [adversarial, stable] if self.update == "simultaneous" else [stable, adversarial]

    def stable_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Equations 8 and 10: right on the stable part, alone and in the augmented environment."""
        chosen: AIASettings = self.settings
        states, edges = self._states(batch), self.classifier.encoder.edge_states(batch)
        adversarial = self._adversarial(batch)
        if self.generator is None:
            return {"augmented": self.risk(self.classifier(batch, adversarial, states, edges), batch)}
        stable = self.generator(batch)
        merged = stable.merge(adversarial)
        penalty = ratio_penalty(stable, batch, chosen.lambda_s, chosen.lambda_s, chosen.indicator)
        alone = self.classifier(batch, stable, states, edges)
        with statistics_kept(self.classifier) if chosen.statistics == "stable" else nullcontext():
            elsewhere = self.classifier(batch, merged, states, edges)
        return {
            "stable": self.risk(alone, batch),
            "augmented": self.risk(elsewhere, batch),
            "stable_ratio": chosen.stable_weight * penalty,
        }

    def adversarial_loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """Equations 7 and 9, turned round: wrong on the masked graph, not far from it, not too sparse."""
        assert self.augmenter is not None
        chosen: AIASettings = self.settings
        states, edges = self._states(batch), self.classifier.encoder.edge_states(batch)
        mask = self.augmenter(batch)
        augmented = self.classifier.embed(batch, mask, states, edges)
        with torch.no_grad():
            original = self.classifier.embed(batch, None, states, edges)
        apart = mse_loss(augmented, original, reduction="none")
        distance = apart.sum(1) if chosen.distance == "squared" else apart.mean(1)
        penalty = ratio_penalty(mask, batch, chosen.lambda_a_node, chosen.lambda_a_edge, chosen.indicator)
        return {
            "adversarial": -self.risk(self.classifier.head(augmented, batch), batch),
            "distance": chosen.gamma * batch.mean_graphs(distance),
            "adversarial_ratio": chosen.adversarial_weight * penalty,
        }

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits from the stable part; from the whole graph where no stable part is learned."""
        stable = None if self.generator is None else self.generator(batch)
        logits: Tensor = self.classifier(batch, stable, self._states(batch))
        return logits

    def masks(self, batch: GraphBatch) -> dict[str, Mask]:
        """The stable, adversarial and merged masks, symmetric."""
        adversarial = self._adversarial(batch)
        if self.generator is None:
            return {"adversarial": adversarial.symmetric(batch)}
        stable = self.generator(batch)
        named = {"stable": stable, "adversarial": adversarial, "merged": stable.merge(adversarial)}
        return {name: mask.symmetric(batch) for name, mask in named.items()}

    def _states(self, batch: GraphBatch) -> Tensor | None:
        if self.front is None:
            return None
        states: Tensor = self.front(batch)
        return states

    def _adversarial(self, batch: GraphBatch) -> Mask:
        """The adversary's mask as the classifier meets it: a given, not something to learn through."""
        dtype = next(self.parameters()).dtype
        if self.augmenter is not None:
            with torch.no_grad():
                mask: Mask = self.augmenter(batch)
            return mask
        if self.settings.adversary == "random":
            return random_mask(batch, self.settings.drop, self.random, dtype)
        return Mask.full(batch, 1.0, dtype)

    @staticmethod
    def released(**changes: Any) -> AIASettings:
        """What the public code does: masks after a two-layer front, mean squared distance, θ and θ₂ first."""
        return replace(AIASettings(), **changes)

    @staticmethod
    def paper(**changes: Any) -> AIASettings:
        """What the paper says: masks on A and X, squared distance, Algorithm 1's order, its table for Motif.

        It does not say whose statistics batch norm has; those of what is predicted from are the only ones that serve.
        """
        settings = AIASettings(
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
        return replace(settings, **changes)
