"""Outputs of contenders on rows that they were not trained on."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from outland.estimators.contenders import calibrated_loss
from outland.graphs import PackedGraphs, Splits, Task
from outland.storage.snapshots import Snapshot
from outland.tables.folds import Fold, row_groups, scaffold_folds


@dataclass(frozen=True)
class HeldOut:
    """The rows that folds hold out, each once, and what is known of them.

    Args:
        rows: their indices `[n]`, in order.
        fold_of: the fold of each `[n]`, of the first division of the table; where there is one fold, its rows are
            divided once more by scaffold, so that what is fitted on some can be judged on others.
        y: labels `[n]` or `[n, T]`, numbers standardized.
        task: what is predicted, with mean and standard deviation of the numbers.
        folds: that hold them out.
    """

    rows: Tensor
    fold_of: Tensor
    y: Tensor
    task: Task
    folds: tuple[Fold, ...]

    @classmethod
    def of(cls, standardized: Splits, folds: Sequence[Fold]) -> "HeldOut":
        """The held-out rows of some folds, of rows with standardized labels."""
        rows = torch.cat([fold.held_out for fold in folds]).unique()
        fold_of = torch.zeros(len(rows), dtype=torch.long)
        for number, fold in reversed([*enumerate(folds)]):
            fold_of[torch.searchsorted(rows, fold.held_out)] = number
        y = standardized.graphs.y[rows]
        if len(folds) == 1:
            groups = row_groups("scaffold", standardized.graphs)[rows]
            (fold_of,) = scaffold_folds(groups, y)
        return cls(rows, fold_of, y, standardized.schema.task, tuple(folds))

    def gather(self, parts: Sequence[Tensor]) -> Tensor:
        """One value a row `[n, ...]` of values for each fold's held-out rows: the mean where a row has several."""
        total = parts[0].new_zeros((len(self.rows), *parts[0].shape[1:]), dtype=torch.double)
        count = torch.zeros(len(self.rows), dtype=torch.double)
        for fold, part in zip(self.folds, parts, strict=True):
            index = torch.searchsorted(self.rows, fold.held_out)
            total[index] += part.double()
            count[index] += 1
        return total / count.reshape(-1, *[1] * (total.dim() - 1))

    def graphs(self, splits: Splits) -> PackedGraphs:
        """The rows as graphs."""
        return splits.graphs.select(self.rows)


@dataclass(frozen=True)
class OutOfFold:
    """What a contender says of held-out rows.

    Args:
        name: of the contender.
        outputs: `[n, outputs]`, in the units that members share.
        epochs: of training that have the least loss on all folds together; of trees 1.
        losses: after each epoch.
        seconds: of training on all folds.
        distances: to the fold's training embeddings `[n]`; None where there are none.
    """

    name: str
    outputs: Tensor
    epochs: int
    losses: tuple[float, ...]
    seconds: float
    distances: Tensor | None = None


def out_of_fold(name: str, results: Sequence[Snapshot], held_out: HeldOut) -> OutOfFold:
    """Outputs after the epoch that is best on all folds together; a fold that ended before has its last ones."""
    by_fold = [_standardized(result.tensors["outputs"], held_out.task) for result in results]
    longest = max(len(outputs) for outputs in by_fold)
    by_epoch, losses = [], []
    for epoch in range(longest):
        by_epoch.append(held_out.gather([outputs[min(epoch, len(outputs) - 1)] for outputs in by_fold]))
        losses.append(calibrated_loss(by_epoch[-1], held_out.y, held_out.task))
    best = min(range(longest), key=losses.__getitem__)
    distances = [result.tensors.get("distances") for result in results]
    known = [each for each in distances if each is not None]
    return OutOfFold(
        name,
        by_epoch[best],
        best + 1,
        tuple(losses),
        sum(result.values["seconds"] for result in results),
        held_out.gather(known) if len(known) == len(results) else None,
    )


def _standardized(outputs: Tensor, task: Task) -> Tensor:
    """Numbers in the labels' own units, standardized as the task has them; other outputs as they are."""
    if task.kind != "regression":
        return outputs
    return (outputs - outputs.new_tensor(task.mean)) / outputs.new_tensor(task.std)
