r"""Covariate shift (GCS) and correlation shift of two sets of feature vectors, as integrals over their densities.

With densities p and q of the two sets and a threshold ε,

.. math::
    \mathrm{GCS} &= \tfrac12 \int_{p < \varepsilon \,\vee\, q < \varepsilon} |p - q| \\
    \mathrm{correlation} &= \tfrac12 \int_{p \ge \varepsilon \,\wedge\, q \ge \varepsilon}
        \sqrt{p\,q}\, \sum_y |p(y \mid z) - q(y \mid z)|

The first counts what lies where the other set has next to nothing (Definition 2.1 of AIA; the diversity shift of
OoD-Bench, Ye et al., CVPR 2022); the second how far labels disagree where both sets are (the correlation shift of
OoD-Bench). Both lie in [0, 1].
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.shift.density import Density

Proposal = Literal["mixture", "union"]


@dataclass(frozen=True)
class Vectors:
    """The feature vectors of one set.

    Args:
        points: one row a graph `[n, d]`.
        weight: of each row, where rows do not count alike `[n]`.
        classes: the class of each row, where labels are known `[n]`.
    """

    points: Tensor
    weight: Tensor | None = None
    classes: Tensor | None = None


@dataclass(frozen=True)
class Comparison:
    """The densities of two sets at points drawn for the integrals, from which both follow for every ε.

    Args:
        log_p, log_q: log densities of the two sets `[M]`.
        log_proposal: log density that the points were drawn from `[M]`.
        disagreement: Σ_y |p(y|z) − q(y|z)|, where labels are known `[M]`.
    """

    log_p: Tensor
    log_q: Tensor
    log_proposal: Tensor
    disagreement: Tensor | None = None

    def _either_absent(self, epsilon: float) -> Tensor:
        """Where one set or the other has a density below ε."""
        return torch.minimum(self.log_p, self.log_q) < torch.tensor(epsilon, dtype=torch.double).log()

    def covariate(self, epsilon: float) -> float:
        """GCS; at ε = ∞ the total variation of the two estimates, at ε = 0 nothing."""
        gap = ((self.log_p - self.log_proposal).exp() - (self.log_q - self.log_proposal).exp()).abs()
        return float(torch.where(self._either_absent(epsilon), gap, 0).mean() / 2)

    def correlation(self, epsilon: float) -> float | None:
        """The correlation shift; None without labels."""
        if self.disagreement is None:
            return None
        both = ((self.log_p + self.log_q) / 2 - self.log_proposal).exp()
        return float(torch.where(self._either_absent(epsilon), 0, both * self.disagreement).mean() / 2)


def compare(
    first: Vectors,
    second: Vectors,
    samples: int = 10_000,
    seed: int = 0,
    proposal: Proposal = "mixture",
    jitter: float = 1e-6,
) -> Comparison:
    """Standardise both sets as one, and evaluate their densities at points drawn for the integrals.

    Args:
        first, second: the two sets.
        samples: M, the number of points.
        seed: of the points.
        proposal: where points are drawn from: the `mixture` of both densities in equal parts, which bounds every term
            of the first integral by 2 and so the result by 1; or a third estimate, on the `union` of both sets
            (Algorithm 2 of AIA), whose result has the same mean and a larger spread, above all for sets far apart.
        jitter: see `Density`; features are in units of their spread.
    """
    if first.points.shape[1] != second.points.shape[1]:
        raise OutlandError(
            f"the first set has {first.points.shape[1]} features and the second {second.points.shape[1]}: "
            "they must be the same ones"
        )
    union = torch.cat([first.points, second.points]).double()
    weight = None
    if first.weight is not None and second.weight is not None:
        weight = torch.cat([side / side.sum() for side in (first.weight, second.weight)]).double()
    scaled = _standardise(union, weight)
    sizes = [len(first.points), len(second.points)]
    first, second = (replace(side, points=z) for side, z in zip((first, second), scaled.split(sizes), strict=True))
    p, q = (Density(side.points, side.weight, jitter) for side in (first, second))
    random = torch.Generator().manual_seed(seed)
    if proposal == "mixture":
        points = torch.cat([p.sample(samples // 2, random), q.sample(samples - samples // 2, random)])
    else:
        pooled = Density(scaled, weight, jitter)
        points = pooled.sample(samples, random)
    log_p, log_q = p.log(points), q.log(points)
    log_proposal = torch.logaddexp(log_p, log_q) - math.log(2) if proposal == "mixture" else pooled.log(points)
    return Comparison(log_p, log_q, log_proposal, _disagreement(first, second, points, jitter))


def covariate_shift(
    first: Tensor, second: Tensor, epsilon: float = 1e-12, samples: int = 10_000, seed: int = 0
) -> float:
    """GCS of two sets of feature vectors `[n, d]`, with d up to about 8: beyond, estimated densities hardly overlap.

    >>> import torch
    >>> draw = torch.Generator().manual_seed(0)
    >>> here, there = torch.randn(300, 2, generator=draw), torch.randn(300, 2, generator=draw) + 30
    >>> round(covariate_shift(here, there), 2), round(covariate_shift(here, here), 2)
    (1.0, 0.0)
    """
    return compare(Vectors(first), Vectors(second), samples, seed).covariate(epsilon)


def _standardise(union: Tensor, weight: Tensor | None) -> Tensor:
    """Every feature with mean 0 and variance 1 over both sets, without constant ones `[n, ≤ d]`.

    Where all features are constant, one column of zeros is returned.
    """
    share = union.new_full((len(union),), 1 / len(union)) if weight is None else weight / weight.sum()
    mean = share @ union
    spread = (share @ (union - mean).square()).sqrt()
    varies = spread > 1e-6 * mean.abs()
    return (union[:, varies] - mean[varies]) / spread[varies] if varies.any() else union.new_zeros(len(union), 1)


def _disagreement(first: Vectors, second: Vectors, points: Tensor, jitter: float) -> Tensor | None:
    """Σ_y |p(y|z) − q(y|z)| at each point, from the densities of each class; None without labels."""
    if first.classes is None or second.classes is None:
        return None
    labels = torch.cat([first.classes, second.classes]).unique().tolist()
    posteriors = [_posterior(side, points, labels, jitter) for side in (first, second)]
    return (posteriors[0] - posteriors[1]).abs().sum(0)


def _posterior(side: Vectors, points: Tensor, labels: list[int], jitter: float) -> Tensor:
    """p(y|z) of one set by Bayes' rule `[classes, M]`."""
    assert side.classes is not None
    weight, logs = side.points.new_ones(len(side.points)) if side.weight is None else side.weight, []
    for label in labels:
        rows = side.classes == label
        share = float((rows.double() * weight).sum() / weight.sum())
        if not share:
            logs.append(points.new_full((len(points),), -torch.inf))
        else:
            logs.append(Density(side.points[rows], weight[rows], jitter).log(points) + math.log(share))
    return torch.stack(logs).softmax(0)
