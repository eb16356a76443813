"""What a table's target columns mean: yes or no, one of several classes, or a number."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from outland.chem.smiles import has_invalid_utf8
from outland.errors import OutlandError
from outland.graphs import Task
from outland.tables.reading import Row

TaskKind = Literal["auto", "binary", "multiclass", "regression"]
_UNKNOWN = {"", "na", "nan", "n/a", "none", "null", "?", "-"}
_YES = {"1", "true", "yes", "active", "positive", "pos", "t", "y"}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
_MOST_CLASSES = 50
_MOST_NUMBERED_CLASSES = 10


def is_unknown(text: str) -> bool:
    """Whether a cell says that nothing is known."""
    return text.strip().lower() in _UNKNOWN


def number(text: str, decimal_comma: bool = False) -> float | None:
    """The number a cell holds; None if it holds none, or none that single precision can.

    A comma is a decimal one, unless exactly three digits follow it and it may as well part thousands; where cells are
    not separated by commas (`decimal_comma`) it always is.
    """
    text = text.strip()
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    if _DECIMAL_COMMA.fullmatch(text) and (decimal_comma or not _THOUSANDS.fullmatch(text)):
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 3e38 else None


@dataclass
class _Survey:
    """What one column holds."""

    name: str
    decimal_comma: bool
    known: int = 0
    numeric: int = 0
    numbers: set[float] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)

    def see(self, text: str) -> None:
        if is_unknown(text) or has_invalid_utf8(text):
            return
        self.known += 1
        value = number(text, self.decimal_comma)
        if value is not None:
            self.numeric += 1
            if len(self.numbers) <= _MOST_CLASSES:
                self.numbers.add(value)
        if len(self.texts) <= _MOST_CLASSES:
            self.texts.add(text.strip().lower())

    def is_numeric(self, wanted: str) -> bool:
        """Whether the labels are numbers; a few that are not are then mistakes of single rows."""
        if not self.known:
            raise OutlandError(f"the target column '{self.name}' has no labels at all")
        share = self.numeric / self.known
        if 0.5 <= share < 0.9 and wanted == "auto":
            odd = min(text for text in self.texts if number(text, self.decimal_comma) is None)
            raise OutlandError(
                f"{1 - share:.0%} of the labels in '{self.name}' are no numbers, such as {odd!r}: "
                "say what they are with --task binary, multiclass or regression"
            )
        return share >= 0.5 if wanted in ("binary", "regression") else share >= 0.9

    def kind(self, wanted: str) -> str:
        """What the column asks for, if that is not said."""
        if wanted != "auto":
            return wanted
        if self.is_numeric(wanted):
            if self.numbers <= {0.0, 1.0}:
                return "binary"
            whole = all(value == int(value) for value in self.numbers)
            return "multiclass" if whole and len(self.numbers) <= _MOST_NUMBERED_CLASSES else "regression"
        return "binary" if len(self.texts) <= 2 else "multiclass"


@dataclass(frozen=True)
class Labels:
    """How to read the target columns.

    Args:
        targets: the columns.
        task: what they ask for.
        classes: the names of the classes, in order and small letters, where labels are names or stand for classes.
        numeric: whether those names are numbers.
        decimal_comma: see `number`.
    """

    targets: tuple[str, ...]
    task: Task
    classes: tuple[str, ...] = ()
    numeric: bool = True
    decimal_comma: bool = False

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
            return [], (
                ", ".join(self.targets),
                " ".join(row.get(name, "") for name in self.targets).strip(),
                "no label",
            )
        return values, None

    def _value(self, text: str) -> float | None:
        value = number(text, self.decimal_comma) if self.numeric else None
        if self.classes:
            name = text.strip().lower() if not self.numeric else None if value is None else f"{value:g}"
            return float(self.classes.index(name)) if name in self.classes else None
        if value is not None and self.task.kind == "binary" and value not in (0.0, 1.0):
            return None
        return value

    def _law(self) -> str:
        if self.classes:
            return f"the label is none of the classes {', '.join(self.classes)}"
        return "the label is not 0 or 1" if self.task.kind == "binary" else "the label is not a number"


def survey(
    rows: Iterable[Row], targets: Sequence[str], wanted: TaskKind = "auto", decimal_comma: bool = False
) -> Labels:
    """Look through the target columns and decide what they ask for."""
    found = {name: _Survey(name, decimal_comma) for name in targets}
    for row in rows:
        for name, column in found.items():
            column.see(row.get(name, ""))
    if len(targets) > 1:
        return _several(found, wanted, decimal_comma)
    (column,) = found.values()
    return _single(column, column.kind(wanted))


def _several(found: dict[str, _Survey], wanted: TaskKind, decimal_comma: bool) -> Labels:
    kinds = {name: column.kind(wanted) for name, column in found.items()}
    binary = set(kinds.values()) == {"binary"}
    for name, column in found.items():
        if wanted == "multiclass" or not column.is_numeric(wanted) or (binary and not column.numbers <= {0.0, 1.0}):
            raise OutlandError(
                f"several targets must all be 0/1 or all be numbers, and '{name}' is not ({min(column.texts)!r}): "
                "train it on its own"
            )
    task = Task("binary", len(found), "rocauc") if binary else Task("regression", len(found), "rmse")
    return Labels(tuple(found), task, decimal_comma=decimal_comma)


def _single(column: _Survey, kind: str) -> Labels:
    numeric = column.is_numeric(kind)
    plain = Labels((column.name,), Task("regression", 1, "rmse"), (), numeric, column.decimal_comma)
    if kind == "regression":
        if not numeric:
            raise OutlandError(
                f"the target column '{column.name}' holds names, such as {min(column.texts)!r}, not numbers"
            )
        return plain
    if kind == "binary" and numeric and column.numbers == {0.0, 1.0}:
        return replace(plain, task=Task("binary", 1, "rocauc"))
    names = [f"{value:g}" for value in sorted(column.numbers)] if numeric else sorted(column.texts)
    if len(names) < 2:
        raise OutlandError(f"every label in '{column.name}' is {names[0]!r}: there is nothing to tell apart")
    if len(names) > _MOST_CLASSES:
        raise OutlandError(
            f"the target column '{column.name}' holds neither numbers nor classes: "
            f"over {_MOST_CLASSES} different labels, such as {names[0]!r}"
        )
    if kind == "binary" and len(names) > 2:
        raise OutlandError(f"the target column '{column.name}' holds {len(names)} different labels, not two")
    if kind == "binary":
        if not numeric:
            names.sort(key=lambda name: name in _YES)
        return replace(plain, task=Task("binary", 1, "rocauc"), classes=tuple(names))
    return replace(plain, task=Task("multiclass", len(names), "accuracy"), classes=tuple(names))
