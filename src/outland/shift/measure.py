"""How far apart two sets of graphs are, which way, and how far two halves of one set would be."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from outland.datasets import DataFolder
from outland.devices import one_thread
from outland.graphs import Cache, PackedGraphs, Schema
from outland.models import TrainedModel
from outland.progress import track
from outland.shift.domain_classifier import domain_features
from outland.shift.integral import Comparison, compare
from outland.shift.pair import Pair, make_pair
from outland.shift.result import FEW_GRAPHS, Estimate, ShiftResult
from outland.shift.settings import ShiftSettings
from outland.shift.trials import align_features, draw_trial
from outland.spec import load_splits

QUICK = ShiftSettings(trials=2, most=500, folds=3, steps=100)  # half a minute
_MAX_NULL, _MAX_EPSILON = 0.01, 1e-6  # of a calibrated ε
_EPSILONS = (1e-15, 1e-12, 1e-9, 1e-6, math.inf)


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
        first, second: `PackedGraphs`, `WeightedGraphs` (what `augmented` returns), or lists of PyG `Data`, with or
            without labels.
        schema: what the numbers mean; inferred from the graphs if it is not given.
        labels: use labels where both sets have them.
        settings: how; the same for all pairs that are to be compared.
        seed: of everything random.
        device: where the domain classifiers are trained.
        progress: show a bar on the terminal.
    """
    started, settings = time.perf_counter(), settings or ShiftSettings()
    pair = make_pair(first, second, schema, labels)
    steps = _run_trials(pair, settings, seed, device)
    with one_thread():
        steps = track(steps, "Measuring", 2 * settings.trials * settings.folds) if progress else steps
        trials = [trial for trial in steps if trial is not None]
    real, null = ([trial for trial in trials if trial.is_null is is_null] for is_null in (False, True))
    epsilon = calibrate_epsilon([trial.comparison for trial in null]) if settings.epsilon is None else settings.epsilon
    return ShiftResult(
        covariate=_covariate(real, epsilon),
        null=_covariate(null, epsilon),
        epsilon=epsilon,
        calibrated=settings.epsilon is None,
        correlation=_correlation(real, epsilon),
        correlation_null=_correlation(null, epsilon),
        accuracy=Estimate.of([trial.accuracy for trial in real]),
        accuracy_null=Estimate.of([trial.accuracy for trial in null]),
        by_epsilon=tuple(
            {"epsilon": other, "covariate": _covariate(real, other).mean, "null": _covariate(null, other).mean}
            for other in _EPSILONS
        ),
        graphs={"given": torch.bincount(pair.side).tolist(), "compared": real[0].sizes},
        notes=(*pair.notes, *_notes(pair, settings, min(real[0].sizes), _covariate(null, epsilon).mean)),
        identical=pair.identical(),
        settings=settings,
        seed=seed,
        seconds=time.perf_counter() - started,
    )


def shift_from_training(
    model: TrainedModel,
    graphs: PackedGraphs,
    settings: ShiftSettings = QUICK,
    seed: int = 0,
    device: torch.device | str = "cpu",
    cache: Cache | None = None,
    data: DataFolder | None = None,
) -> ShiftResult:
    """The shift, without labels, from the training graphs that a model keeps or whose dataset can be loaded."""
    reference = model.reference
    if reference is None:
        reference = load_splits(model.spec, cache=cache, data=data).part("train")
    schema = model.schema
    return measure_shift(reference, graphs, schema=schema, labels=False, settings=settings, seed=seed, device=device)


@dataclass(frozen=True)
class _TrialResult:
    """What one trial gives for the sides as they are, or for random ones."""

    is_null: bool
    comparison: Comparison
    accuracy: float
    sizes: list[int]


def _run_trials(
    pair: Pair, settings: ShiftSettings, seed: int, device: torch.device | str
) -> Iterator[_TrialResult | None]:
    """The two results of each trial, real and null; None after each domain classifier but the last of a result."""
    classes = pair.class_count if settings.label_input else 0
    for number in range(settings.trials):
        trial_seed = seed * 1000 + number
        trial = draw_trial(pair, settings, trial_seed)
        for is_null in (False, True):
            side = trial.random_side if is_null else trial.side
            graphs, weight = trial.with_sides(side).to(device), trial.weight(side)
            features: list[Tensor] = []
            correct = torch.zeros(len(side), dtype=torch.bool)
            for fold in range(settings.folds):
                if fold:
                    yield None
                held_out = trial.fold == fold
                z, hits = domain_features(graphs, pair.schema, classes, held_out, settings, trial_seed, weight)
                features.append(z)
                correct = torch.where(held_out, hits, correct)
            vectors = trial.vectors(align_features(features, trial.fold), side)
            comparison = compare(*vectors, settings.samples, trial_seed, settings.proposal)
            accuracy = fmean(correct[side == label].double().mean().item() for label in (0, 1))
            yield _TrialResult(is_null, comparison, accuracy, torch.bincount(side).tolist())


def calibrate_epsilon(null: list[Comparison]) -> float:
    """The largest ε, up to 1e-6, at which the null is on average at most 0.01; by bisection of its logarithm."""

    def mean(epsilon: float) -> float:
        return fmean(comparison.covariate(epsilon) for comparison in null)

    if mean(_MAX_EPSILON) <= _MAX_NULL:
        return _MAX_EPSILON
    low, high = -40.0, math.log10(_MAX_EPSILON)
    for _ in range(25):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(10**middle) <= _MAX_NULL else (low, middle)
    return 10**low


def _covariate(trials: list[_TrialResult], epsilon: float) -> Estimate:
    return Estimate.of([trial.comparison.covariate(epsilon) for trial in trials])


def _correlation(trials: list[_TrialResult], epsilon: float) -> Estimate | None:
    values = [trial.comparison.correlation(epsilon) for trial in trials]
    return None if None in values else Estimate.of([value for value in values if value is not None])


def _notes(pair: Pair, settings: ShiftSettings, graphs: int, null: float) -> list[str]:
    """What a person should know about the numbers: what was left out, and what makes them weak."""
    notes = []
    if min(torch.bincount(pair.side)) > settings.most:
        notes.append(f"at most {settings.most:,} graphs a side are drawn in each trial (shift.most)")
    for side, other in ((0, "second"), (1, "first")):
        inside, outside = (pair.classes[rows].tolist() for rows in (pair.side == side, pair.side != side))
        missing = sorted(label for label in set(inside) - set(outside) if label >= 0)
        if pair.labelled and missing:
            labels = ", ".join(map(str, missing))
            notes.append(f"the {other} set has no graph of class {labels}: these are left out of the comparison")
    if settings.epsilon is None and null > _MAX_NULL:
        notes.append(
            f"no ε brings the null down to {_MAX_NULL:g}: the sets are small, and GCS is to be read against {null:.3f}"
        )
    if graphs < FEW_GRAPHS:
        notes.append(f"with fewer than {FEW_GRAPHS} graphs a side ({graphs} here) all numbers are rough")
    if settings.trials == 1:
        notes.append("one trial shows no spread, so nothing tells how far its numbers are chance: take more trials")
    return notes
