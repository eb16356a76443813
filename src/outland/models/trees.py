"""Forests and gradient boosting on fingerprints, descriptors and counts, by scikit-learn, kept as tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.chem.descriptors import DESCRIPTOR_NAMES
from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Task
from outland.models.tree_tensors import MAX_DEPTH, TreeTensors, row_blocks

BITS = 2048  # of a fingerprint
MISSING = -1e30  # a descriptor that is not finite: below all others, so that a split can tell it apart
Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Trees:
    r"""A random forest or gradient boosting on `[fingerprint bits | descriptors | counts]` of molecules.

    A forest's probability is the mean p of its T trees, taken to :math:`(T p + 1/C) / (T + 1)` so that its logarithm is
    finite; boosting gives logits.

    Args:
        kind: `forest` or `boosting`.
        task: what is predicted.
        trees: of all targets and classes.
        column: first output that each tree adds to `[T]`.
        base: output of each column before the first tree `[outputs]`.
        numbers: how many descriptors and counts they read.
    """

    kind: Literal["forest", "boosting"]
    task: Task
    trees: TreeTensors
    column: Tensor
    base: Tensor
    numbers: int

    @property
    def name(self) -> str:
        """In tables and on cards."""
        return self.kind

    @property
    def reads_counts(self) -> bool:
        """Whether its numbers are more than descriptors: trees from before there were counts read none."""
        return self.numbers > len(DESCRIPTOR_NAMES)

    def to(self, device: torch.device) -> "Trees":
        """Itself: trees compute on the host."""
        return self

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name: what is saved."""
        return {**self.trees.tensors(), "column": self.column, "base": self.base}

    def check(self) -> None:
        """A `ValueError` where the parts do not fit each other."""
        self.trees.check(BITS + self.numbers)
        width, outputs = self.trees.value.shape[1], self.task.outputs
        column, base = self.column, self.base
        if (column.dtype, column.shape) != (torch.int32, self.trees.root.shape) or base.shape != (outputs,):
            raise ValueError("its trees add to other outputs than it has")
        is_whole = self.kind == "boosting" or len(column.unique()) * width == outputs
        if not (is_whole and 0 <= int(column.min()) <= int(column.max()) <= outputs - width):
            raise ValueError("its trees add to other outputs than it has")
        if base.dtype != torch.float32 or not bool(base.isfinite().all()):
            raise ValueError("a number of its trees is not finite")

    def outputs(self, graphs: PackedGraphs) -> Tensor:
        """Outputs of molecules `[G, outputs]`, in order."""
        bits, numbers = tree_inputs(graphs, self.numbers)
        total = np.zeros((len(graphs), self.task.outputs))
        width, column = self.trees.value.shape[1], self.column.numpy()
        for block in row_blocks(len(graphs)):
            x = np.concatenate([np.unpackbits(bits[block], axis=1).T.astype(np.float32), numbers[block].T])
            values = self.trees.leaf_values(x)
            for first in np.unique(column):
                total[block, first : first + width] += values[column == first].sum(0, dtype=np.float64)
        return torch.from_numpy(self._link(total)).float()

    def _link(self, total: Array) -> Array:
        if self.kind == "boosting":
            raw = total + self.base.double().numpy()
            return np.asarray(raw - _logsumexp(raw) if self.task.kind == "multiclass" else raw)
        counts, width = np.unique(self.column.numpy(), return_counts=True)[1], self.trees.value.shape[1]
        trees = np.repeat(counts, width).astype(np.float64)
        if self.task.kind == "regression":
            return np.asarray(total / trees)
        classes = 2 if self.task.kind == "binary" else self.task.outputs
        p = (total + 1 / classes) / (trees + 1)
        return np.asarray(np.log(p) if self.task.kind == "multiclass" else np.log(p) - np.log1p(-p))


def vectors(graphs: PackedGraphs, descriptors: int | None = None) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Packed fingerprint bits `[G, 256]` and descriptors `[G, D]` of molecules, missing ones a very low number."""
    if not {"fingerprint", "descriptors"} <= set(graphs.extra):
        raise OutlandError("trees read fingerprints and descriptors of molecules, and these graphs have none")
    values = graphs.extra["descriptors"].cpu().numpy().astype(np.float32)
    if descriptors is not None and values.shape[1] != descriptors:
        raise OutlandError(f"these molecules have {values.shape[1]} descriptors, and the model reads {descriptors}")
    return graphs.extra["fingerprint"].cpu().numpy(), np.where(np.isfinite(values), values, np.float32(MISSING))


def tree_inputs(graphs: PackedGraphs, width: int | None = None) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Packed fingerprint bits `[G, 256]`, and descriptors and counts of molecules `[G, width]`.

    Trees from before there were counts read descriptors alone; so do those of graphs that have no counts.
    """
    bits, descriptors = vectors(graphs)
    if "counts" not in graphs.extra or width == descriptors.shape[1]:
        return vectors(graphs, width)
    numbers = np.concatenate([descriptors, graphs.extra["counts"].cpu().numpy().astype(np.float32)], axis=1)
    if width not in (None, numbers.shape[1]):
        raise OutlandError(
            f"these molecules have {numbers.shape[1]} descriptors and counts, and the model reads {width}"
        )
    return bits, numbers


def _logsumexp(raw: Array) -> Array:
    top = raw.max(1, keepdims=True)
    return np.asarray(top + np.log(np.exp(raw - top).sum(1, keepdims=True)))


Fitted = tuple[list[TreeTensors], list[int], list[float]]  # trees, the column of each, and base values


def fit_forest(
    graphs: PackedGraphs,
    task: Task,
    seed: int,
    *,
    trees: int = 300,
    min_leaf: int = 1,
    class_weight: Mapping[int, float] | str | None = None,
    sample_weight: Array | None = None,
    threads: int = 1,
) -> Trees:
    """A random forest, one a target on the rows where it is known; no class weights, so that probabilities are shares.

    Args:
        graphs: molecules with `extra["fingerprint"]`, `extra["descriptors"]` and, where there are any,
            `extra["counts"]`; `y` as the task has it, numbers standardized.
        task: what is predicted.
        seed: decides everything random.
        trees: how many, for each target.
        min_leaf: fewest training rows in a leaf.
        class_weight, sample_weight: as scikit-learn's.
        threads: that grow trees.
    """
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    settings: dict[str, Any] = {
        "n_estimators": trees,
        "min_samples_leaf": min_leaf,
        "max_depth": MAX_DEPTH,
        "random_state": seed,
        "n_jobs": threads,
    }

    def fit(x: Any, y: Array, weight: Array | None, column: int) -> Fitted:
        if task.kind == "regression":
            forest = RandomForestRegressor(**settings, max_features=1 / 3).fit(x, y, weight)
            values = [tree.tree_.value[:, 0, :1] for tree in forest.estimators_]
        else:
            forest = RandomForestClassifier(**settings, class_weight=class_weight).fit(x, y.astype(int), weight)
            values = [_shares(tree.tree_.value[:, 0], forest.classes_, task) for tree in forest.estimators_]
        exported = [
            TreeTensors.from_sklearn(tree.tree_, value) for tree, value in zip(forest.estimators_, values, strict=True)
        ]
        return exported, [column] * len(exported), [0.0]

    return _fit_targets("forest", graphs, task, sample_weight, fit)


def _shares(counts: Array, classes: npt.NDArray[np.int64], task: Task) -> Array:
    """Shares of the classes in each node: of the second one for a binary task, of all `[N, outputs]` else."""
    shares = np.zeros((len(counts), 2 if task.kind == "binary" else task.outputs))
    shares[:, classes] = counts / counts.sum(1, keepdims=True)
    return shares[:, 1:] if task.kind == "binary" else shares


def fit_boosting(
    graphs: PackedGraphs,
    task: Task,
    seed: int,
    *,
    trees: int = 300,
    rate: float = 0.05,
    depth: int = 5,
    min_leaf: int = 3,
    sample_weight: Array | None = None,
) -> Trees:
    """Stochastic gradient boosting, one a target on the rows where it is known.

    Args:
        graphs, task, seed, sample_weight: as of `fit_forest`.
        trees: how many, for each target or class.
        rate: learning rate.
        depth: of each tree.
        min_leaf: fewest training rows in a leaf.
    """
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    settings: dict[str, Any] = {
        "n_estimators": trees,
        "learning_rate": rate,
        "max_depth": depth,
        "min_samples_leaf": min_leaf,
        "max_features": "sqrt",
        "subsample": 0.7,
        "random_state": seed,
    }

    def fit(x: Any, y: Array, weight: Array | None, column: int) -> Fitted:
        if task.kind == "regression":
            boosting = GradientBoostingRegressor(**settings).fit(x, y, weight)
            base, columns = [float(boosting.init_.constant_.item())], [column]
        else:
            boosting = GradientBoostingClassifier(**settings).fit(x, y.astype(int), weight)
            log_prior = np.log(boosting.init_.class_prior_)
            base, columns = [float(log_prior[1] - log_prior[0])], [column]
            if task.kind == "multiclass":
                base, columns = _class_base(boosting, log_prior, task)
        exported = [
            TreeTensors.from_sklearn(tree.tree_, rate * tree.tree_.value[:, 0, :1])
            for row in boosting.estimators_
            for tree in row
        ]
        return exported, columns * len(boosting.estimators_), base

    return _fit_targets("boosting", graphs, task, sample_weight, fit)


def _class_base(boosting: Any, log_prior: Array, task: Task) -> tuple[list[float], list[int]]:
    """Base values of all classes, very low for one without rows, and the class of each tree of an iteration."""
    classes = boosting.classes_.tolist()
    base = np.full(task.outputs, np.log(1e-6))
    base[classes] = log_prior
    return base.tolist(), classes if len(classes) > 2 else classes[1:]  # of two classes the second has all trees


def _fit_targets(
    kind: Literal["forest", "boosting"],
    graphs: PackedGraphs,
    task: Task,
    sample_weight: Array | None,
    fit: Callable[[Any, Array, Array | None, int], Fitted],
) -> Trees:
    """One fit a target, on the rows where it is known; for a multiclass task a single one."""
    bits, numbers = tree_inputs(graphs)
    x = np.concatenate([np.unpackbits(bits, axis=1).astype(np.float32), numbers], axis=1)
    labels = graphs.y.reshape(len(graphs), -1).double().cpu().numpy()
    trees: list[TreeTensors] = []
    columns: list[int] = []
    base: list[float] = []
    for column, y in enumerate(labels.T):
        known = ~np.isnan(y)
        if len(np.unique(y[known])) < 2:
            fitted = _constant(kind, y[known], task, column)
        else:
            weight = None if sample_weight is None else sample_weight[known]
            fitted = fit(x[known], y[known], weight, column)
        trees += fitted[0]
        columns += fitted[1]
        base += fitted[2]
    if kind == "forest":
        base = [0.0] * task.outputs
    return Trees(
        kind,
        task,
        TreeTensors.concatenate(trees),
        torch.tensor(columns, dtype=torch.int32),
        torch.tensor(base, dtype=torch.float32),
        numbers.shape[1],
    )


def _constant(kind: str, y: Array, task: Task, column: int) -> Fitted:
    """A target whose known labels are all the same: their value, moved a little from 0 and 1 for classes."""
    if task.kind == "multiclass":
        raise OutlandError("all rows are of one class: there is nothing to learn")
    mean = float(y.mean()) if len(y) else 0.0
    if task.kind == "binary":
        mean = (y.sum() + 0.5) / (len(y) + 1)
        mean = mean if kind == "forest" else float(np.log(mean / (1 - mean)))
    is_forest = kind == "forest"
    return [TreeTensors.constant(np.array([mean if is_forest else 0.0]))], [column], [0.0 if is_forest else mean]
