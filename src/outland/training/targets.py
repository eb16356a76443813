"""Labels made ready for training: numbers standardized, rare classes drawn more often."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import Splits
from outland.spec import RunSpec

_MOST_REPEATS = 10  # of a graph of a rare class in one epoch


class NoTarget(OutlandError, ValueError):
    """Labels from which nothing can be learned; a `ValueError`, as scikit-learn's callers expect."""


@dataclass(frozen=True)
class TrainingData:
    """Splits as a run trains on them: numbers to predict are standardized, graphs of rare classes repeated."""

    splits: Splits
    class_counts: list[int]  # training graphs of each class; empty for numbers and for several targets
    class_draws: list[int] | list[float]  # how often they are drawn an epoch, relative to each other


def prepare_targets(splits: Splits, spec: RunSpec) -> TrainingData:
    """Standardize numbers to predict over training, and draw rare classes more often where the spec asks for it."""
    splits = standardize(splits)
    counts = class_counts(splits)
    is_benchmark = spec.table is None and not spec.data_checksum
    if counts and min(counts) == 0 and (spec.train.class_balance or not is_benchmark):
        names, absent = splits.source.get("classes"), counts.index(0)
        which = f"class {str(names[absent])!r}" if names else f"class number {absent}"
        raise NoTarget(f"no training row is of {which}: hold out fewer rows, or take the domain 'random', or more data")
    if not spec.train.class_balance or not counts:
        weights = splits.source.get("class_weight") or [1] * len(counts)  # graphs are drawn by them
        return TrainingData(splits, counts, [count * weight for count, weight in zip(counts, weights, strict=True)])
    train, draws = balanced_index(splits.graphs.y[splits["train"].to(splits.graphs.device)], splits["train"], spec.seed)
    return TrainingData(replace(splits, parts={**splits.parts, "train": train}), counts, draws)


def standardize(splits: Splits) -> Splits:
    """Numbers to predict with mean 0 and standard deviation 1 over training, by target; other tasks as they are."""
    task = splits.schema.task
    if task.kind != "regression":
        return splits
    labels = splits.graphs.y.reshape(len(splits.graphs), -1).double()
    known = labels[splits["train"].to(labels.device)]
    columns = [column[~column.isnan()] for column in known.T]
    mean = tuple(float(column.mean()) for column in columns)
    std = tuple(float(column.std(correction=0)) for column in columns)
    if not all(value > 0 and torch.tensor(center).isfinite() for center, value in zip(mean, std, strict=True)):
        raise NoTarget("the numbers to predict are all the same, or not finite: there is nothing to learn")
    y = ((labels - labels.new_tensor(mean)) / labels.new_tensor(std)).float()
    schema = replace(splits.schema, task=replace(task, mean=mean, std=std))
    return replace(splits, graphs=replace(splits.graphs, y=y.reshape_as(splits.graphs.y)), schema=schema)


def class_counts(splits: Splits) -> list[int]:
    """Training graphs of each class of a single target; empty for numbers and for several targets."""
    task = splits.schema.task
    if task.kind == "regression" or (task.kind == "binary" and task.outputs > 1):
        return []
    labels = splits.graphs.y.flatten()[splits["train"].to(splits.graphs.device)].cpu()
    known = labels[~labels.isnan()] if labels.is_floating_point() else labels
    return torch.bincount(known.long(), minlength=2 if task.kind == "binary" else task.outputs).tolist()


def balanced_index(labels: Tensor, train: Tensor, seed: int) -> tuple[Tensor, list[int]]:
    """Training index with rare classes repeated until all are drawn alike, at most ten times; draws of each class.

    Rows are repeated and not weighted, because every method takes them so.
    """
    labels = labels.flatten().cpu()
    known = ~labels.isnan() if labels.is_floating_point() else slice(None)
    labels, train = labels[known].long(), train[known]
    counts = torch.bincount(labels).tolist()
    generator, index = torch.Generator().manual_seed(seed), []
    for label, count in enumerate(counts):
        draws = min(max(counts), _MOST_REPEATS * count)
        rows = train[labels == label]
        rest = rows[torch.randperm(count, generator=generator)[: draws % count]]
        index.append(torch.cat([rows.repeat(draws // count), rest]))
    return torch.cat(index), [len(rows) for rows in index]
