"""Labels and weights of rows as scikit-learn's callers bring them: one target or several, with gaps."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.estimators.inputs import BadInput, UnusedRowsWarning
from outland.graphs import Task

Labels = npt.NDArray[Any]  # [rows, targets], of objects or numbers
Weights = npt.NDArray[np.float64]
_MOST_CLASSES = 50  # of labels that are written as numbers with a fraction


def label_table(y: Any, rows: int) -> Labels:
    """Labels as a table `[rows, targets]`, whatever container they come in."""
    if y is None:
        raise BadInput("requires y to be passed, but the target y is None")
    values = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or len(values) != rows or not values.shape[1]:
        shape = np.shape(y)
        raise BadInput(f"y must have one label, or one of each target, for each of {rows} rows, not the shape {shape}")
    return values


def usable_rows(labels: Labels, weight: Weights | None) -> npt.NDArray[np.int64]:
    """Indices of the rows with a label and a weight above 0; a warning says how many have no label."""
    known = np.asarray(~is_missing(labels).all(1))
    if not known.any():
        raise BadInput("no row has a label")
    if not known.all():
        count, first = int((~known).sum()), int(known.argmin())
        warnings.warn(
            f"{count} of {len(known)} rows have no label and are not trained on; the first: row {first}",
            UnusedRowsWarning,
            stacklevel=3,
        )
    return np.flatnonzero(known if weight is None else known & (weight > 0))


def is_missing(labels: Labels) -> npt.NDArray[np.bool_]:
    """Which labels are None, NaN or pandas' NA, in the shape of the labels."""
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype != object:
        return np.zeros(labels.shape, dtype=bool)
    flat = [label is None or type(label).__name__ in ("NAType", "NaTType") or label != label for label in labels.flat]
    return np.array(flat, dtype=bool).reshape(labels.shape)


def class_labels(labels: Labels) -> tuple[Tensor, Task, tuple[Any, ...]]:
    """Codes of classes, their task, and the names of the classes; gaps are NaN.

    One target may have any number of classes; of several, all have the same two.
    """
    missing = is_missing(labels)
    known = _plain([label.item() if hasattr(label, "item") else label for label in labels[~missing]])
    classes, codes = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(f"every label is {classes[0].item()!r}: there is nothing to tell apart")
    if known.dtype.kind == "f" and (len(classes) > _MOST_CLASSES or (classes != np.round(classes)).any()):
        raise BadInput("the labels are numbers, not classes: use GraphRegressor")
    names, targets = tuple(name.item() for name in classes), labels.shape[1]
    if len(classes) > 2 and targets > 1:
        raise BadInput(f"several targets must have two classes, the same for all; these have {len(classes)} together")
    if len(classes) > 2:
        return torch.from_numpy(codes.reshape(-1).astype(np.int64)), Task("multiclass", len(classes), "accuracy"), names
    table = np.full(labels.shape, np.nan, dtype=np.float32)
    table[~missing] = codes.reshape(-1)
    return torch.from_numpy(table), Task("binary", targets, "rocauc"), names


def number_labels(labels: Labels) -> tuple[Tensor, Task]:
    """Numbers `[rows, targets]`, gaps as NaN, and their task."""
    missing = is_missing(labels)
    try:
        table = np.where(missing, np.nan, labels).astype(np.float64)
    except (TypeError, ValueError):
        raise BadInput("the labels are not numbers: use GraphClassifier") from None
    if np.isinf(table).any():
        raise BadInput(f"a label among the rows is not finite: {table[np.isinf(table)][0]}")
    return torch.from_numpy(table.astype(np.float32)), Task("regression", labels.shape[1], "rmse")


def row_weights(sample_weight: Any, rows: int) -> Weights | None:
    """Weights of rows `[rows]`, not negative and not all 0; None where there are none."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("sample_weight must be numbers, one a row") from None
    if weight.shape != (rows,):
        raise BadInput(f"sample_weight must have one number for each of {rows} rows, not the shape {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and (weight > 0).any()):
        raise BadInput("sample_weight must be finite numbers of 0 or more, and not all 0")
    return weight


def class_weights(class_weight: Mapping[Any, float], names: tuple[Any, ...], task: Task) -> list[float]:
    """The weight of each class in the order of `names`; one that is not named has 1, as in scikit-learn."""
    if task.kind == "binary" and task.outputs > 1:
        raise BadInput("class_weight by name is for one target; weigh rows of several by sample_weight")
    unknown = [name for name in class_weight if name not in names]
    if unknown:
        raise BadInput(f"class_weight names {unknown[0]!r}, and the classes are {', '.join(map(repr, names))}")
    weights = [float(class_weight.get(name, 1.0)) for name in names]
    if not all(np.isfinite(weight) and weight > 0 for weight in weights):
        raise BadInput("the weights of classes must be finite numbers above 0")
    return weights


def _plain(labels: list[Any]) -> npt.NDArray[Any]:
    """Labels as they are: numbers as numbers, text as text."""
    kinds = {type(label) for label in labels}
    if kinds <= {str} or kinds <= {bool} or kinds <= {int, float}:
        return np.array(labels)
    named = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise BadInput(f"labels must be all text, all numbers or all true and false, not {named}")
