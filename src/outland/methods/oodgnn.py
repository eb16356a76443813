"""OOD-GNN: weigh the graphs so that the coordinates of their embeddings become independent."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.base import MethodSettings
from outland.methods.parts.weighting import WeighingMethod, WeightingSettings


@dataclass(frozen=True)
class OODGNNSettings(WeightingSettings):
    """Hyper-parameters of OOD-GNN: those of the weights (see `WeightingSettings`)."""


class OODGNN(WeighingMethod):
    r"""OOD-GNN: Out-of-Distribution Generalized Graph Neural Network (Li et al., TKDE 2022), rebuilt on StableNet.

    .. math:: \min_\theta \sum_i q_i\,\ell(\Phi(h_i), y_i), \qquad
              q = \arg\min_q \frac1\lambda \sum_k \sum_{i \ne j} \mathrm{Cov}_q\big(f_k(h^i), f_k(h^j)\big)^2
              + \sum_i q_i^2, \qquad f(z) = \sqrt2 \cos(wz + \varphi)

    No public code exists, and AIA's authors rebuilt it on StableNet (Zhang et al., CVPR 2021), as is done here: weights
    are a softmax, learned afresh in each batch beside one memory of earlier ones. `pairs=all` counts the covariances of
    different Fourier features too, as OOD-GNN's paper does.
    """

    name: ClassVar[str] = "ood-gnn"
    family: ClassVar[str] = "graph"
    citation: ClassVar[str] = "Li et al., TKDE 2022"
    Settings: ClassVar[type[MethodSettings]] = OODGNNSettings

    def read(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The embeddings, for both."""
        h = self.classifier.embed(batch)
        return h, h
