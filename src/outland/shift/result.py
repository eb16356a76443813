"""What a measurement of a shift gives: estimates beside their nulls, notes, and a sentence."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from outland.shift.messages import IDENTICAL, describe_shift
from outland.shift.settings import ShiftSettings

FEW_GRAPHS = 100  # a side, below which densities are so wide that all numbers are rough


@dataclass(frozen=True)
class Estimate:
    """Mean and population standard deviation over trials, and each trial's value."""

    mean: float
    spread: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """The estimate from the values of all trials."""
        return cls(fmean(values), pstdev(values), tuple(values))


@dataclass(frozen=True)
class ShiftResult:
    """A measured shift.

    Args:
        covariate: GCS: how much of the two sets lies where the other has next to nothing, 0 to 1.
        null: the same of the pooled graphs, parted at random.
        epsilon: density below which a set counts as absent; `calibrated` if it was chosen by the null.
        correlation, correlation_null: how far labels disagree where both sets are; None without labels.
        accuracy, accuracy_null: balanced accuracy of the domain classifier on held-out graphs; one half is chance.
        by_epsilon: GCS and its null at other thresholds.
        graphs: number of graphs a side, `given` and `compared` in each trial.
        notes: what a person should know.
        identical: whether both sets are the same graphs.
        settings, seed, seconds: how it was measured, and the time it took.
    """

    covariate: Estimate
    null: Estimate
    epsilon: float
    calibrated: bool
    correlation: Estimate | None
    correlation_null: Estimate | None
    accuracy: Estimate
    accuracy_null: Estimate
    by_epsilon: tuple[dict[str, float], ...]
    graphs: dict[str, list[int]]
    notes: tuple[str, ...]
    identical: bool
    settings: ShiftSettings
    seed: int
    seconds: float

    def sentence(self) -> str:
        """Which shift there is, in plain words."""
        if self.identical:
            return IDENTICAL
        covariate = (self.covariate.mean, self.null.mean, max(self.null.spread, self.covariate.spread))
        noise = 0.5 / math.sqrt(sum(self.graphs["compared"]))  # standard deviation of a share of fair coins
        accuracy = (self.accuracy.mean, self.accuracy_null.mean, max(self.accuracy_null.spread, noise))
        correlation = None
        if self.correlation is not None and self.correlation_null is not None and len(self.correlation.values) > 2:
            spread = max(self.correlation_null.spread, self.correlation.spread)  # means nothing with one or two trials
            correlation = (self.correlation.mean, self.correlation_null.mean, spread)
        return describe_shift(covariate, accuracy, correlation, self._few())

    def _few(self) -> str:
        """Of what there is too little to say much, as in `with 40 graphs a side and one trial`."""
        graphs = min(self.graphs["compared"])
        parts = [f"{graphs} graphs a side"] if graphs < FEW_GRAPHS else []
        parts += ["one trial"] if self.settings.trials == 1 else []
        return f"with {' and '.join(parts)}" if parts else ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file; infinity is written as text."""
        plain = {**asdict(self), "sentence": self.sentence()}
        return {name: _plain(value) for name, value in plain.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return "inf" if value == math.inf else value
