"""How far apart two sets of graphs are, which way, and how far two halves of one set would be."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

import torch
from torch import Tensor

from outland.devices import one_thread
from outland.graphs import Schema
from outland.progress import track
from outland.shift.domains import domain_features
from outland.shift.integral import Comparison, compare
from outland.shift.pair import Pair, make_pair
from outland.shift.settings import ShiftSettings
from outland.shift.trials import Trial, aligned, draw_trial
from outland.shift.words import SAME, verdict

_LIMIT, _TOP = 0.01, 1e-6  # what the null may be when ε is calibrated, and the largest ε
_FEW = 100  # graphs a side, below which densities are so wide that little can be said
_EPSILONS = (1e-15, 1e-12, 1e-9, 1e-6, math.inf)


@dataclass(frozen=True)
class Estimate:
    """Mean and population standard deviation over trials, and each trial's value."""

    mean: float
    spread: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Sum up trials."""
        return cls(fmean(values), pstdev(values), tuple(values))


@dataclass(frozen=True)
class ShiftResult:
    """What was measured.

    Args:
        covariate: GCS: how much of the two sets lies where the other has next to nothing, 0 to 1.
        null: the same of the pooled graphs, parted at random.
        epsilon: density below which a set counts as absent; `calibrated` tells whether it was found on the null.
        correlation, correlation_null: how far labels disagree where both sets are; None without labels.
        accuracy, accuracy_null: share of unseen graphs whose set the domain classifier tells, mean of the two sides;
            one half is chance.
        by_epsilon: GCS and its null at other thresholds.
        graphs: how many there were, and how many a side were compared in each trial.
        notes: what a person should know.
        identical: whether both sets are the same graphs.
        settings, seed, seconds: how it was measured, and how long that took.
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
            return SAME
        covariate = (self.covariate.mean, self.null.mean, max(self.null.spread, self.covariate.spread))
        noise = 0.5 / math.sqrt(sum(self.graphs["compared"]))  # of a share of so many coins
        accuracy = (self.accuracy.mean, self.accuracy_null.mean, max(self.accuracy_null.spread, noise))
        correlation = None
        if self.correlation is not None and self.correlation_null is not None and len(self.correlation.values) > 2:
            spread = max(self.correlation_null.spread, self.correlation.spread)  # of one or two trials it says nothing
            correlation = (self.correlation.mean, self.correlation_null.mean, spread)
        return verdict(covariate, accuracy, correlation, self._few())

    def _few(self) -> str:
        """Why little can be said of what was measured; empty where enough was."""
        graphs = min(self.graphs["compared"])
        parts = [f"{graphs} graphs a side"] if graphs < _FEW else []
        parts += ["one trial"] if self.settings.trials == 1 else []
        return f"with {' and '.join(parts)}" if parts else ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file; infinity is written as text."""
        plain = {**asdict(self), "sentence": self.sentence()}
        return {name: _plain(value) for name, value in plain.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return "inf" if value == math.inf else value


def measure_shift(
    first: Any,
    second: Any,
    *,
    schema: Schema | None = None,
    labels: bool = True,
    settings: ShiftSettings | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: bool = True,
) -> ShiftResult:
    """Measure how far apart two sets of graphs are (Algorithm 2 of AIA, with what its ancestor OoD-Bench adds).

    In each trial, graphs are drawn so that both sides have as many of each class, cut into folds, and a small domain
    classifier learns for each fold, from all the others, to tell the sets apart; the densities of its features on
    the held-out graphs are compared. The same is done with the sides drawn at random: what that gives is the null.

    Args:
        first, second: `PackedGraphs`, `WeightedGraphs` (what `augmented` makes), or lists of PyG `Data`, with or
            without labels.
        schema: what the numbers mean; found out from the graphs if it is not given.
        labels: use labels where both sets have them.
        settings: how; the same for all pairs that are to be compared.
        seed: of everything random.
        device: where the domain classifiers are trained.
        progress: show a bar on the terminal.
    """
    started, settings = time.perf_counter(), settings or ShiftSettings()
    pair = make_pair(first, second, schema, labels)
    total = 2 * settings.trials * settings.folds
    work = _work(pair, settings, seed, device)
    with one_thread():
        found = [done for done in (track(work, "Measuring", total) if progress else work) if done is not None]
    real, null = ([one for one in found if one.control is control] for control in (False, True))
    epsilon = settings.epsilon
    if epsilon is None:
        epsilon = calibrated([one.comparison for one in null])
    return ShiftResult(
        covariate=_covariate(real, epsilon),
        null=_covariate(null, epsilon),
        epsilon=epsilon,
        calibrated=settings.epsilon is None,
        correlation=_correlation(real, epsilon),
        correlation_null=_correlation(null, epsilon),
        accuracy=Estimate.of([one.accuracy for one in real]),
        accuracy_null=Estimate.of([one.accuracy for one in null]),
        by_epsilon=tuple(
            {"epsilon": one, "covariate": _covariate(real, one).mean, "null": _covariate(null, one).mean}
            for one in _EPSILONS
        ),
        graphs={"given": torch.bincount(pair.side).tolist(), "compared": real[0].sizes},
        notes=(
            *pair.notes,
            *_more_notes(pair, settings),
            *_calibration_note(settings, _covariate(null, epsilon).mean),
            *_caution(settings, min(real[0].sizes)),
        ),
        identical=pair.identical(),
        settings=settings,
        seed=seed,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True)
class _Done:
    """One half of a trial."""

    control: bool
    comparison: Comparison
    accuracy: float
    sizes: list[int]


def _work(pair: Pair, settings: ShiftSettings, seed: int, device: torch.device | str) -> Iterator[_Done | None]:
    """What each trial finds, for the two sets and for the control; and None after each classifier but its last."""
    for number in range(settings.trials):
        own = seed * 1000 + number
        trial = draw_trial(pair, settings, own)
        for control in (False, True):
            side = trial.control if control else trial.side
            features: list[Tensor] = []
            right = torch.zeros(len(side), dtype=torch.bool)
            for fold in range(settings.folds):
                if fold:
                    yield None
                z, told = _features(trial, side, fold, pair, settings, own, device)
                features.append(z)
                right = torch.where(trial.fold == fold, told, right)
            vectors = trial.vectors(aligned(features, trial.fold), side)
            comparison = compare(*vectors, settings.samples, own, settings.proposal)
            accuracy = fmean(right[side == place].double().mean().item() for place in (0, 1))
            yield _Done(control, comparison, accuracy, torch.bincount(side).tolist())


def _features(
    trial: Trial,
    side: Tensor,
    fold: int,
    pair: Pair,
    settings: ShiftSettings,
    seed: int,
    device: torch.device | str,
) -> tuple[Tensor, Tensor]:
    """Features of all graphs by the classifier that has not seen one fold, and whose side it tells rightly."""
    classes = pair.class_count if settings.label_input else 0
    held_out = trial.fold == fold
    return domain_features(
        trial.sided(side).to(device), pair.schema, classes, held_out, settings, seed, trial.weight(side)
    )


def calibrated(null: list[Comparison]) -> float:
    """The largest ε, up to 1e-6, at which the null is on average at most 0.01; by bisection of its logarithm."""

    def mean(epsilon: float) -> float:
        return fmean(one.covariate(epsilon) for one in null)

    if mean(_TOP) <= _LIMIT:
        return _TOP
    low, high = -40.0, math.log10(_TOP)
    for _ in range(25):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(10**middle) <= _LIMIT else (low, middle)
    return 10**low


def _covariate(found: list[_Done], epsilon: float) -> Estimate:
    return Estimate.of([one.comparison.covariate(epsilon) for one in found])


def _correlation(found: list[_Done], epsilon: float) -> Estimate | None:
    values = [one.comparison.correlation(epsilon) for one in found]
    return None if None in values else Estimate.of([value for value in values if value is not None])


def _calibration_note(settings: ShiftSettings, null: float) -> list[str]:
    if settings.epsilon is not None or null <= _LIMIT:
        return []
    return [f"no ε brings the null down to {_LIMIT:g}: the sets are small, and GCS is to be read against {null:.3f}"]


def _caution(settings: ShiftSettings, graphs: int) -> list[str]:
    """What makes every number weak."""
    notes = []
    if graphs < _FEW:
        notes.append(f"with fewer than {_FEW} graphs a side ({graphs} here) all numbers are rough")
    if settings.trials == 1:
        notes.append("one trial shows no spread, so nothing tells how far its numbers are chance: take more trials")
    return notes


def _more_notes(pair: Pair, settings: ShiftSettings) -> list[str]:
    notes = []
    if min(torch.bincount(pair.side)) > settings.most:
        notes.append(f"at most {settings.most:,} graphs a side are drawn in each trial (shift.most)")
    for place, name in ((0, "second"), (1, "first")):
        missing = sorted(
            set(pair.classes[pair.side == place].tolist()) - set(pair.classes[pair.side != place].tolist())
        )
        missing = [one for one in missing if one >= 0]
        if pair.labelled and missing:
            named = ", ".join(str(one) for one in missing)
            notes.append(f"the {name} set has no graph of class {named}: these are left out of the comparison")
    return notes
