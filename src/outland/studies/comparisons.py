"""What a table says of its rows: differences from a reference, planned tests, ranks."""

from dataclasses import dataclass
from typing import Literal

Effect = Literal["better", "worse", "not shown"]


@dataclass(frozen=True)
class Comparison:
    """A cell beside the reference in the same column, over the seeds that both have."""

    difference: float  # mean over the pairs, as it is shown
    pairs: int
    p: float  # of the sign-flip test; NaN with fewer than two pairs
    adjusted: float  # p by Holm's correction over the comparisons of the column
    comparisons: int  # how many these are; rows of the same runs are one
    effect: Effect  # `better` or `worse` only where the adjusted p is below 0.05


@dataclass(frozen=True)
class PlannedTest:
    """A row beside one other in a column, by a test that was planned and needs no correction within the column."""

    rival: str
    difference: float  # mean over the pairs, as it is shown
    pairs: int
    p: float  # of the sign-flip test; NaN with fewer than two pairs


@dataclass(frozen=True)
class Ranks:
    """Average ranks over the columns that are complete."""

    rows: tuple[str, ...]  # names, best first
    ranks: tuple[float, ...]
    columns: int
    critical: float  # difference of ranks that must be passed
    p: float  # of all ranking alike
    groups: tuple[tuple[int, int], ...]  # first and last index of rows that are not shown to differ
