"""DropEdge: train on graphs from which edges are dropped at random."""

import torch

from outland.graphs import GraphBatch
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.ranking import both_directions
from outland.nn import Mask
from outland.settings import Fraction, settings


@settings("method")
class DropEdgeSettings(MethodSettings):
    """Hyper-parameters of DropEdge.

    Args:
        drop: probability with which each undirected edge is left out of a step.
    """

    drop: Fraction = 0.2


class DropEdge(ERM[DropEdgeSettings]):
    r"""DropEdge: Towards Deep Graph Convolutional Networks on Node Classification (Rong et al., ICLR 2020).

    .. math:: \min_\theta \mathbb{E}_{E' \subset E}\,[\ell(f(V, E'), y)]

    Both directions of an edge go together, drawn anew in each step. An edge of weight 0 is an absent edge for every
    backbone, so no graph is rebuilt. Whole graphs at inference.
    """

    name = "dropedge"
    family = "augmentation"
    citation = "Rong et al., ICLR 2020"
    space = {"drop": (0.05, 0.1, 0.2, 0.3, 0.5)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss on graphs with dropped edges."""
        return {"risk": self.risk(self.classifier(batch, self.augment(batch)), batch)}

    def augment(self, batch: GraphBatch) -> Mask:
        """Weight 0 for the edges dropped, 1 for everything else."""
        uniform = torch.rand(batch.num_edges, generator=self.random, device=batch.x.device)
        remains = both_directions(uniform, batch) >= self.settings.drop
        return Mask.on_edges(remains.to(next(self.parameters()).dtype), batch)
