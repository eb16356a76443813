"""What a table's target columns mean: yes or no, one of several classes, or a number."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from outland.datasets.tables import Row
from outland.errors import OutlandError
from outland.graphs import Task

TaskKind = Literal["auto", "binary", "multiclass", "regression"]
_UNKNOWN = {"", "na", "nan", "n/a", "none", "null", "?", "-"}
_YES = {"1", "true", "yes", "active", "positive", "pos", "t", "y"}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_MOST_CLASSES = 50
_MOST_NUMBERED_CLASSES = 10


def is_unknown(text: str) -> bool:
    """Whether a cell says that nothing is known."""
    return text.strip().lower() in _UNKNOWN


def number(text: str) -> float | None:
    """The number a cell holds, a decimal comma allowed; None if it holds none, or none that is finite."""
    text = text.strip()
    if _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass
class _Survey:
    """What one column holds."""

    known: int = 0
    numbers: set[float] = field(default_factory=set)
    numeric: int = 0
    texts: set[str] = field(default_factory=set)

    def see(self, text: str) -> None:
        if is_unknown(text):
            return
        self.known += 1
        value = number(text)
        if value is not None:
            self.numeric += 1
            if len(self.numbers) <= _MOST_CLASSES:
                self.numbers.add(value)
        if len(self.texts) <= _MOST_CLASSES:
            self.texts.add(text.strip())

    def kind(self, name: str) -> str:
        if not self.known:
            raise OutlandError(f"the target column '{name}' has no labels at all")
        if self.numeric >= 0.9 * self.known:
            if self.numbers <= {0.0, 1.0}:
                return "binary"
            whole = all(value == int(value) for value in self.numbers)
            return "multiclass" if whole and len(self.numbers) <= _MOST_NUMBERED_CLASSES else "regression"
        if len(self.texts) > _MOST_CLASSES:
            raise OutlandError(
                f"the target column '{name}' holds neither numbers nor classes: over {_MOST_CLASSES} different texts, "
                f"such as {min(self.texts)!r}"
            )
        return "binary" if len(self.texts) <= 2 else "multiclass"


@dataclass(frozen=True)
class Labels:
    """How to read the target columns.

    Args:
        targets: the columns.
        task: what they ask for.
        classes: the names of the classes, in order, where the labels are names.
    """

    targets: tuple[str, ...]
    task: Task
    classes: tuple[str, ...] = ()

    def read(self, row: Row) -> tuple[list[float], tuple[str, str, str] | None]:
        """The labels of a row, NaN where unknown; or the column, value and reason why they cannot be used."""
        values = []
        for name in self.targets:
            text = row.get(name, "")
            value = math.nan if is_unknown(text) else self._value(text)
            if value is None:
                return [], (name, text, self._law())
            values.append(value)
        if all(math.isnan(value) for value in values):
            return [], (", ".join(self.targets), "", "no label")
        return values, None

    def _value(self, text: str) -> float | None:
        if self.classes:
            return float(self.classes.index(text.strip())) if text.strip() in self.classes else None
        value = number(text)
        if value is not None and self.task.kind == "binary" and value not in (0.0, 1.0):
            return None
        return value

    def _law(self) -> str:
        if self.classes:
            return f"the label is none of the classes {', '.join(self.classes)}"
        return "the label is not 0 or 1" if self.task.kind == "binary" else "the label is not a number"


def survey(rows: Iterable[Row], targets: Sequence[str], wanted: TaskKind = "auto") -> Labels:
    """Look through the target columns and decide what they ask for."""
    found = {name: _Survey() for name in targets}
    for row in rows:
        for name, column in found.items():
            column.see(row.get(name, ""))
    kinds = {name: column.kind(name) for name, column in found.items()}
    if len(targets) > 1:
        return _several(found, kinds, wanted)
    (name,) = targets
    return _single(name, found[name], kinds[name] if wanted == "auto" else wanted)


def _several(found: dict[str, _Survey], kinds: dict[str, str], wanted: TaskKind) -> Labels:
    kind = wanted if wanted != "auto" else "binary" if set(kinds.values()) == {"binary"} else "regression"
    for name, column in found.items():
        numeric = column.numeric >= 0.9 * column.known
        if kind == "multiclass" or not numeric or (kind == "binary" and kinds[name] != "binary"):
            raise OutlandError(
                f"several targets must all be 0/1 or all be numbers, and '{name}' holds {kinds[name]} labels: "
                "train it on its own"
            )
    metric: Literal["rocauc", "rmse"] = "rocauc" if kind == "binary" else "rmse"
    task_kind: Literal["binary", "regression"] = "binary" if kind == "binary" else "regression"
    return Labels(tuple(found), Task(task_kind, len(found), metric))


def _single(name: str, column: _Survey, kind: str) -> Labels:
    if kind == "regression":
        return Labels((name,), Task("regression", 1, "rmse"))
    numeric = column.numeric >= 0.9 * column.known
    if kind == "binary":
        if numeric:
            return Labels((name,), Task("binary", 1, "rocauc"))
        if len(column.texts) > 2:
            raise OutlandError(f"the target column '{name}' holds {len(column.texts)} classes, not two")
        no_then_yes = sorted(column.texts, key=lambda text: (text.lower() in _YES, text))
        return Labels((name,), Task("binary", 1, "rocauc"), tuple(no_then_yes))
    texts = [text for text in column.texts if not numeric or number(text) is not None]
    classes = tuple(sorted(texts, key=(lambda text: (number(text), text)) if numeric else None))
    return Labels((name,), Task("multiclass", max(2, len(classes)), "accuracy"), classes)
