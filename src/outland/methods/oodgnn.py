"""OOD-GNN: weigh the graphs so that the coordinates of their embeddings become independent."""

from torch import Tensor

from outland.graphs import GraphBatch
from outland.methods.parts.weighting import WeightingMethod, WeightingSettings


class OODGNN(WeightingMethod[WeightingSettings]):
    r"""OOD-GNN: Out-of-Distribution Generalized Graph Neural Network (Li et al., TKDE 2022), rebuilt on StableNet.

    .. math:: \min_\theta \sum_i q_i\,\ell(\Phi(h_i), y_i), \qquad
              q = \arg\min_q \frac1\lambda \sum_k \sum_{i \ne j} \mathrm{Cov}_q\big(f_k(h^i), f_k(h^j)\big)^2
              + \sum_i q_i^2, \qquad f(z) = \sqrt2 \cos(wz + \varphi)

    No public code exists, and AIA's authors rebuilt it on StableNet (Zhang et al., CVPR 2021), as is done here: weights
    are a softmax, learned anew in each batch beside one memory of earlier ones. `pairs=all` counts the covariances of
    different Fourier features too, as OOD-GNN's paper does.
    """

    name = "ood-gnn"
    family = "graph"
    citation = "Li et al., TKDE 2022"

    def features_and_readout(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """The graph embeddings, for both."""
        h = self.classifier.embed(batch)
        return h, h
