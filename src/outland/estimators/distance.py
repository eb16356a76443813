"""How unusual a graph is for a model: how far its embedding lies from those of training graphs."""

from dataclasses import dataclass

import torch
from torch import Tensor

NEIGHBOURS, MOST = 5, 1000
_STILL = 1e-6
_LEAST_SPREAD = 0.1  # of a coordinate, in that of the median one
FLAGS = ("near", "edge", "far")


@dataclass(frozen=True)
class Familiar:
    """Distance to the fifth nearest of up to a thousand training embeddings, each coordinate by its own spread.

    Nearest neighbours suppose no shape: training embeddings lie in several clumps, where one ellipsoid around all of
    them (Mahalanobis) would take the gaps between clumps for known ground. A distance of 1 is what one training graph
    in twenty exceeds; beyond it a graph is at the `edge`, and beyond what one in a hundred exceeds it is `far`. A
    coordinate that is all but still in training counts by a tenth of the median spread, lest a stir of it be far.

    Args:
        centre, spread: of each coordinate over training.
        reference: the training embeddings that are kept, so scaled.
        unit, far: the 95 % and 99 % points of training graphs' own distances, before scaling.
    """

    centre: Tensor
    spread: Tensor
    reference: Tensor
    unit: float
    far: float

    @classmethod
    def of(cls, embeddings: Tensor, seed: int) -> "Familiar":
        """From training embeddings `[G, d]`; those that are not kept, or else each without itself, give the scale."""
        centre, spread = embeddings.mean(0), _spread(embeddings)
        scaled = (embeddings - centre) / spread
        order = torch.randperm(len(scaled), generator=torch.Generator().manual_seed(seed))
        kept, others = scaled[order[:MOST]], scaled[order[MOST : 2 * MOST]]
        if len(others) >= NEIGHBOURS * 20:
            own = _nearest(others, kept, NEIGHBOURS)
        else:
            own = _nearest(kept, kept, min(NEIGHBOURS + 1, len(kept)))
        unit, far = own.double().quantile(torch.tensor([0.95, 0.99], dtype=torch.double)).clamp(min=1e-6).tolist()
        return cls(centre, spread, kept, unit, far)

    def distances(self, embeddings: Tensor) -> Tensor:
        """Of each graph `[G]`."""
        return _nearest((embeddings - self.centre) / self.spread, self.reference, NEIGHBOURS) / self.unit

    def flags(self, distances: Tensor) -> list[str]:
        """In words."""
        limit = self.far / self.unit
        return [FLAGS[(one > 1) + (one > limit)] for one in distances.tolist()]


def _spread(embeddings: Tensor) -> Tensor:
    """Of each coordinate, none far below the median of those that move."""
    spread = embeddings.std(0, correction=0)
    moving = spread[spread > _STILL]
    return spread.clamp(min=_LEAST_SPREAD * float(moving.median()) if len(moving) else 1.0)


def _nearest(rows: Tensor, reference: Tensor, place: int) -> Tensor:
    """Distance to the neighbour in that place."""
    apart = torch.cdist(rows, reference, compute_mode="donot_use_mm_for_euclid_dist")
    return apart.kthvalue(min(place, len(reference)), dim=1).values
