"""How unusual a graph is for a model: the k-nearest-neighbour distance of its embedding to training embeddings."""

from dataclasses import dataclass

import torch
from torch import Tensor

NEIGHBOURS, REFERENCES = 5, 1000
_CANDIDATES = 32
_ROWS = 1024  # whose candidates are gathered at once
_CONSTANT = 1e-6
_LEAST_SCALE = 0.1  # of a coordinate, in units of the median scale
FLAGS = ("near", "edge", "far")


@dataclass(frozen=True)
class KNNDistance:
    """Distance to the fifth nearest of up to a thousand training embeddings, each coordinate divided by its scale.

    Nearest neighbours suppose no shape: training embeddings lie in several clusters, where one ellipsoid around all of
    them (Mahalanobis) would count the gaps between clusters as training data. A distance of 1 is the 95 % quantile of
    training graphs; beyond it a graph is at the `edge`, and beyond the 99 % quantile it is `far`. A coordinate that is
    all but constant in training is divided by a tenth of the median scale.

    Args:
        center, scale: mean and standard deviation of each coordinate over training.
        reference: standardized training embeddings `[R, d]`.
        unit, far: the 95 % and 99 % quantiles of training graphs' distances, before division by `unit`.
    """

    center: Tensor
    scale: Tensor
    reference: Tensor
    unit: float
    far: float

    @classmethod
    def fit(cls, embeddings: Tensor, seed: int) -> "KNNDistance":
        """From training embeddings `[G, d]`; quantiles are of those not in `reference`, or leave-one-out if too few."""
        center, scale = embeddings.mean(0), _scales(embeddings)
        standardized = (embeddings - center) / scale
        order = torch.randperm(len(standardized), generator=torch.Generator().manual_seed(seed))
        reference, others = standardized[order[:REFERENCES]], standardized[order[REFERENCES : 2 * REFERENCES]]
        if len(others) >= NEIGHBOURS * 20:
            distances = _kth_distance(others, reference, NEIGHBOURS)
        else:
            distances = _kth_distance(reference, reference, min(NEIGHBOURS + 1, len(reference)))
        quantiles = torch.tensor([0.95, 0.99], dtype=torch.double)
        unit, far = distances.double().quantile(quantiles).clamp(min=1e-6).tolist()
        return cls(center, scale, reference, unit, far)

    def distances(self, embeddings: Tensor) -> Tensor:
        """Distance of each graph `[G]`, in units of the 95 % quantile."""
        return _kth_distance((embeddings - self.center) / self.scale, self.reference, NEIGHBOURS) / self.unit

    def flags(self, distances: Tensor) -> list[str]:
        """`near`, `edge` or `far` for each distance."""
        limit = self.far / self.unit
        return [FLAGS[(distance > 1) + (distance > limit)] for distance in distances.tolist()]


def _scales(embeddings: Tensor) -> Tensor:
    """Standard deviation of each coordinate, none far below the median of those that vary."""
    scale = embeddings.std(0, correction=0)
    varying = scale[scale > _CONSTANT]
    return scale.clamp(min=_LEAST_SCALE * float(varying.median()) if len(varying) else 1.0)


def _kth_distance(rows: Tensor, reference: Tensor, k: int) -> Tensor:
    """Distance of each row to the k-th nearest reference `[G]`.

    A matrix product, which rounds, says which references may be near; their distances are taken one by one.
    """
    norms, k = reference.square().sum(1), min(k, len(reference))
    kth_distances = []
    for block in rows.split(_ROWS):
        far = norms - 2 * block @ reference.T
        near = far.topk(min(_CANDIDATES, len(reference)), dim=1, largest=False, sorted=False).indices
        distances = torch.cdist(block[:, None], reference[near], compute_mode="donot_use_mm_for_euclid_dist")[:, 0]
        kth_distances.append(distances.kthvalue(k, dim=1).values)
    return torch.cat(kth_distances)
