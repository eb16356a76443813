"""OOD-GNN: weigh the graphs so that the coordinates of their embeddings become independent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from outland.graphs import GraphBatch, Schema
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.weighting import (
    Dependence,
    SampleWeighter,
    WeightingSettings,
    fourier_dependence,
    weighted_risk,
)
from outland.nn import BackboneSettings


@dataclass(frozen=True)
class OODGNNSettings(WeightingSettings):
    """Hyper-parameters of OOD-GNN: those of the weights (see `WeightingSettings`)."""


class OODGNN(ERM):
    r"""OOD-GNN: Out-of-Distribution Generalized Graph Neural Network (Li et al., TKDE 2022), rebuilt on StableNet.

    .. math:: \min_\theta \sum_i q_i\,\ell(\Phi(h_i), y_i), \qquad
              q = \arg\min_q \frac1\lambda \sum_k \sum_{i \ne j} \mathrm{Cov}_q\big(f_k(h^i), f_k(h^j)\big)^2
              + \sum_i q_i^2, \qquad f(z) = \sqrt2 \cos(wz + \varphi)

    No public code exists, and AIA's authors rebuilt it on StableNet (Zhang et al., CVPR 2021), as is done here: weights
    are a softmax, learned afresh in each batch beside one memory of earlier ones. `pairs=all` counts the covariances of
    different Fourier features too, as OOD-GNN's paper does. One graph that has all the weight is a trivial optimum
    without any dependence: watch `effective_sample_size`. Weights play no part at inference.
    """

    name: ClassVar[str] = "ood-gnn"
    family: ClassVar[str] = "graph"
    citation: ClassVar[str] = "Li et al., TKDE 2022"
    Settings: ClassVar[type[MethodSettings]] = OODGNNSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "lambda_p": (1.0, 10.0, 70.0),
        "features": ("normalised", "standardised"),
        "inner_lr": (0.1, 1.0),
    }

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: MethodSettings | None = None) -> None:
        super().__init__(schema, backbone, settings)
        self.weighter = SampleWeighter(backbone.width, self.settings)

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The weighted mean loss."""
        h = self.classifier.embed(batch)
        weights = self.weights(h, batch, progress)
        return {"weighted_risk": weighted_risk(self.classifier.head(h, batch), batch, self.schema.task, weights)}

    def weights(self, h: Tensor, batch: GraphBatch, progress: Progress) -> Tensor:
        """The weight of each graph, with mean 1; no gradient flows through it."""
        weights: Tensor = self.weighter(h, batch, self.measure, progress.epoch)
        return weights

    def measure(self, z: Tensor, valid: Tensor) -> Dependence:
        """What the weights are to lower."""
        return fourier_dependence(z, valid, self.random, self.settings)

    def effective_sample_size(self) -> Tensor:
        """Of the last batch's weights, as a share of its graphs; between .3 and .95 they do something sane."""
        return self.weighter.share
