r"""GCS as a function of Wasserstein distance, for Proposition 4.1 of AIA.

A distribution moved by a vector of length r lies at Wasserstein distance r from itself, of every order: each point
travels r, and no transport plan does with less, for the means are r apart. The proposition says that GCS then cannot
fall as r grows.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from outland.shift.integral import covariate_shift
from outland.shift.result import Estimate

RADII = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0)


def normal(count: int, width: int, random: torch.Generator) -> Tensor:
    """Points of the standard normal distribution `[count, width]`."""
    return torch.randn(count, width, generator=random, dtype=torch.double)


def ball(count: int, width: int, random: torch.Generator) -> Tensor:
    """Points uniform in the ball of radius 1 `[count, width]`."""
    direction = torch.nn.functional.normalize(normal(count, width, random), dim=1)
    return direction * torch.rand(count, 1, generator=random, dtype=torch.double) ** (1 / width)


DISTRIBUTIONS: dict[str, Callable[[int, int, torch.Generator], Tensor]] = {"normal": normal, "ball": ball}


def exact_ball(radius: float) -> float:
    """GCS of the ball of radius 1 in three dimensions and the same ball moved: the share of either outside the other.

    Where both balls are, their densities are equal, so this is their total variation too.

    >>> [round(exact_ball(radius), 3) for radius in (0, 1, 2, 5)]
    [0.0, 0.688, 1.0, 1.0]
    """
    return 1.0 if radius >= 2 else 3 * radius / 4 - radius**3 / 16


def radius_study(
    distribution: str = "normal",
    radii: Sequence[float] = RADII,
    width: int = 3,
    points: int = 1000,
    trials: int = 5,
    epsilon: float = 1e-6,
    samples: int = 10_000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """GCS between samples of a distribution and of the same one moved in a random direction, at each radius.

    Args:
        distribution: `normal`, or `ball`.
        radii: Wasserstein distances to move by.
        width: dimension.
        points: number of points a side.
        trials: number of trials, each with other samples and directions.
        epsilon: density below which a set counts as absent.
        samples: number of points of the integral.
        seed: of everything random.
    """
    rows: list[dict[str, Any]] = []
    for radius in radii:
        values = []
        for trial in range(trials):
            random = torch.Generator().manual_seed(seed * 1000 + trial)
            here, there = (DISTRIBUTIONS[distribution](points, width, random) for _ in range(2))
            direction = torch.nn.functional.normalize(normal(1, width, random), dim=1)
            values.append(covariate_shift(here, there + radius * direction, epsilon, samples, trial))
        estimate = Estimate.of(values)
        row: dict[str, Any] = {"radius": radius, "covariate": estimate.mean, "spread": estimate.spread}
        rows.append({**row, "exact": exact_ball(radius)} if distribution == "ball" and width == 3 else row)
    return rows
