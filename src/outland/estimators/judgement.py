"""Which contender is delivered, or the stacked mean of several: judged on rows that none of them was trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.errors import listed
from outland.estimators.contenders import VECTOR_MODELS
from outland.estimators.out_of_fold import HeldOut, OutOfFold
from outland.estimators.stacking import combine, cross_fitted, mean_loss
from outland.graphs import PackedGraphs
from outland.models.calibration import calibrate, expected_calibration_error, reliability_bins
from outland.models.comparison import STACK, Comparison, ContenderScore, ReliabilityBin
from outland.models.evaluation import compare_outputs, metric_of, scaffold_groups

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """What is delivered.

    Args:
        delivered: name of a contender, or `stack`.
        weights: of contenders in the delivered model, by name; those without weight are not there.
        losses: of each contender and of the stack, temperature, bias and weights fitted on the other folds.
        outputs: of each on held-out rows `[n, outputs]`; of the stack by weights of the other folds.
    """

    delivered: str
    weights: Mapping[str, float]
    losses: Mapping[str, float]
    outputs: Mapping[str, Tensor]

    @property
    def reason(self) -> str:
        """Why that one, in a sentence."""
        alone = {name: loss for name, loss in self.losses.items() if name != STACK}
        best = min(alone, key=alone.__getitem__)
        if len(alone) == 1:
            return f"{best} was the only contender"
        if self.delivered == STACK:
            return (
                f"the weighted mean of {listed(self.weights)} has the least loss on held-out rows, "
                f"{self.losses[STACK]:.3f}; the best contender alone, {best}, has {alone[best]:.3f}"
            )
        return (
            f"{self.delivered} has the least loss on held-out rows, {alone[self.delivered]:.3f}; the best weighted "
            f"mean of contenders has {self.losses[STACK]:.3f}"
        )


def judge(contenders: Sequence[OutOfFold], held_out: HeldOut) -> Judgement:
    """The contender with the least cross-fitted loss, or the stack of all where its loss is less still."""
    y, task = held_out.y, held_out.task
    entries = {each.name: [each.outputs] for each in contenders}
    if len(contenders) > 1:
        entries[STACK] = [each.outputs for each in contenders]
    fitted = {name: cross_fitted(outputs, y, held_out.fold_of, task) for name, outputs in entries.items()}
    losses = {name: mean_loss(combined, y, task) for name, (combined, _) in fitted.items()}
    outputs = {name: mean for name, (_, mean) in fitted.items()}
    delivered = min(losses, key=losses.__getitem__)
    weights = {delivered: 1.0}
    if delivered == STACK:
        shares = combine(torch.stack(entries[STACK]), y, task).weights.tolist()
        weights = {each.name: share for each, share in zip(contenders, shares, strict=True) if share > 0}
        delivered = STACK if len(weights) > 1 else next(iter(weights))
    return Judgement(delivered, weights, losses, outputs)


def compare(
    contenders: Sequence[OutOfFold], judgement: Judgement, held_out: HeldOut, graphs: PackedGraphs, seed: int
) -> Comparison:
    """Scores of all contenders on the held-out rows, with paired intervals over scaffolds, best first.

    `graphs` are the held-out rows, with labels in their own units.
    """
    task, delivered = held_out.task, judgement.delivered
    names = [delivered, *(name for name in judgement.outputs if name != delivered)]
    outputs = [task.in_label_units(judgement.outputs[name]).numpy() for name in names]
    labels = graphs.y.reshape(len(graphs), -1).double().numpy()
    intervals = compare_outputs(outputs, labels, scaffold_groups(graphs), task, seed)
    known = {each.name: each for each in contenders}
    scores = [
        ContenderScore(
            name=name,
            score=score,
            difference=difference,
            loss=judgement.losses[name],
            weight=judgement.weights.get(name, 0.0) if name in known else None,
            epochs=known[name].epochs if name in known and name not in VECTOR_MODELS else None,
            seconds=known[name].seconds if name in known else 0.0,
        )
        for name, (score, difference) in zip(names, intervals, strict=True)
    ]
    bins, error = _reliability(judgement.outputs[delivered], held_out)
    return Comparison(
        metric=metric_of(task),
        rows=len(held_out.rows),
        folds=len(held_out.folds),
        contenders=sorted(scores, key=lambda score: score.loss),
        delivered=delivered,
        reason=judgement.reason,
        reliability=bins,
        calibration_error=error,
    )


def _reliability(outputs: Tensor, held_out: HeldOut) -> tuple[list[ReliabilityBin], float | None]:
    """Predicted probabilities beside what came true, calibrated on the other folds; nothing for numbers."""
    if held_out.task.kind == "regression":
        return [], None
    probability, happened = _events(outputs, held_out)
    bins = reliability_bins(probability, happened)
    return [ReliabilityBin(**vars(each)) for each in bins], expected_calibration_error(probability, happened)


def _events(outputs: Tensor, held_out: HeldOut) -> tuple[Array, Array]:
    """Probabilities of yes, or of the most probable class, and whether it is so; all targets one after another."""
    task, y = held_out.task, held_out.y
    probabilities = torch.zeros_like(outputs)
    for fold in held_out.fold_of.unique():
        rows = held_out.fold_of == fold
        others = ~rows if not rows.all() else rows
        probabilities[rows] = calibrate(outputs[others], y[others], task).probabilities(outputs[rows], task)
    if task.kind == "multiclass":
        top = probabilities.max(1)
        return top.values.numpy(), (top.indices == y.flatten()).double().numpy()
    labels = y.reshape_as(outputs)
    known = ~labels.isnan()
    return probabilities[known].numpy(), labels[known].double().numpy()
