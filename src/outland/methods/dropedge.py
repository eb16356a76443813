"""DropEdge: train on graphs thinned at random."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from outland.graphs import GraphBatch
from outland.methods.base import MethodSettings, Progress, Terms
from outland.methods.erm import ERM
from outland.methods.parts.ranking import both_directions
from outland.nn import Mask
from outland.settings import check_ranges


@dataclass(frozen=True)
class DropEdgeSettings(MethodSettings):
    """Hyper-parameters of DropEdge.

    Args:
        drop: chance of each undirected edge to be left out of a step.
    """

    drop: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, "method", drop=(0, 1))


class DropEdge(ERM):
    r"""DropEdge: Towards Deep Graph Convolutional Networks on Node Classification (Rong et al., ICLR 2020).

    .. math:: \min_\theta \mathbb{E}_{E' \subset E}\,[\ell(f(V, E'), y)]

    Both directions of an edge go together, a new draw each step. An edge of weight 0 is an absent edge for every
    backbone, so nothing is rebuilt. Whole graphs at inference.
    """

    name: ClassVar[str] = "dropedge"
    family: ClassVar[str] = "augmentation"
    citation: ClassVar[str] = "Rong et al., ICLR 2020"
    Settings: ClassVar[type[MethodSettings]] = DropEdgeSettings
    space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"drop": (0.05, 0.1, 0.2, 0.3, 0.5)}

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """The mean loss on thinned graphs."""
        return {"risk": self.risk(self.classifier(batch, self.thinned(batch)), batch)}

    def thinned(self, batch: GraphBatch) -> Mask:
        """Weight 0 for the edges left out, 1 for everything else."""
        draw = torch.rand(batch.num_edges, generator=self.random, device=batch.x.device)
        kept = both_directions(draw, batch) >= self.settings.drop
        return Mask.on_edges(kept.to(next(self.parameters()).dtype), batch)
