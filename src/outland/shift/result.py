"""What a measurement of a shift gives: estimates beside their nulls, notes, and a sentence."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from outland.shift.settings import ShiftSettings

WithNull = tuple[float, float, float]  # a value, its null, and the standard deviation of the null over trials
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
            return "The two sets are the same graphs: there is no shift between them, and what is measured is chance."
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


def describe_shift(covariate: WithNull, accuracy: WithNull, correlation: WithNull | None = None, few: str = "") -> str:
    """Which shift there is; `few` names what there is too little of, as in `with 40 graphs a side`, if anything."""
    parts = [_covariate(covariate, accuracy, few)]
    if correlation is not None:
        parts.append(_correlation(correlation, covariate))
    return " ".join(parts)


def _exceeds_null(measure: WithNull, minimum: float) -> bool:
    """Whether a value is above its null by `minimum` and by three standard deviations."""
    value, null, std = measure
    return value - null > max(minimum, 3 * std)


def _covariate(covariate: WithNull, accuracy: WithNull, few: str) -> str:
    gcs, gcs_null, _ = covariate
    correct, correct_null, std = accuracy
    evidence = (
        f"a small network tells {correct:.0%} of unseen graphs apart, and {correct_null:.0%} where sides are random"
    )
    shifted = _exceeds_null(covariate, 0.02)
    separable = _exceeds_null((correct, max(correct_null, 0.5), std), 0.03)
    if shifted and separable:
        size = "a small" if gcs < 0.1 else "a moderate" if gcs < 0.4 else "a large"
        rough = f" {few.capitalize()} that share is rough." if few else ""
        return (
            f"There is {size} covariate shift: about {gcs:.0%} of the graphs lie where the other set has next to "
            f"none ({evidence}).{rough}"
        )
    if shifted:
        doubt = f"{few.capitalize()} there is not enough to tell" if few else "The two measures do not agree on"
        numbers = f"GCS is {gcs:.2f}, and {gcs_null:.2f} by chance"
        return f"{doubt} whether there is a covariate shift: {numbers}, but {evidence}."
    if separable:
        limit = f", as far as can be told {few}" if few else ""
        return (
            "The two sets differ, but each reaches where the other is: some kinds of graphs are more frequent in one "
            f"than in the other, and to the network's eye hardly any lie beyond the other's reach{limit} ({evidence})."
        )
    unseen = f" {few.capitalize()} a small one could not be seen." if few else ""
    return f"No covariate shift is to be seen: {evidence}.{unseen}"


def _correlation(correlation: WithNull, covariate: WithNull) -> str:
    value, null, _ = correlation
    if covariate[0] > 0.5:
        return "The sets meet too little for a correlation shift to be judged."
    if _exceeds_null(correlation, 0.05):
        return (
            f"There is a correlation shift: where both sets are, the same graphs have other labels "
            f"({value:.2f}, against {null:.2f} by chance)."
        )
    return f"No correlation shift can be told from chance ({value:.2f}, against {null:.2f} by chance)."
