"""Labels of a table: what its target columns ask for (binary, multiclass, regression) and the values in them."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from outland.chem.smiles import has_invalid_utf8
from outland.errors import OutlandError
from outland.graphs import Task
from outland.tables.reading import Cells

TaskKind = Literal["auto", "binary", "multiclass", "regression"]
_MISSING = {"", "na", "nan", "n/a", "none", "null", "?", "-"}
_POSITIVE = {"1", "true", "yes", "active", "positive", "pos", "t", "y"}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
_MAX_CLASSES = 50
_MAX_NUMBERED_CLASSES = 10


def is_missing(text: str) -> bool:
    """Whether a cell holds no value."""
    return text.strip().lower() in _MISSING


def parse_number(text: str, decimal_comma: bool = False) -> float | None:
    """The number in a cell; None if there is none, or none that single precision can hold.

    A comma is a decimal one, unless exactly three digits follow it and it may as well separate thousands; where cells
    are not separated by commas (`decimal_comma`) it always is.
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
class _ColumnSummary:
    """Counts and different values of one target column."""

    name: str
    decimal_comma: bool
    known: int = 0
    numeric: int = 0
    numbers: set[float] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)

    def add(self, text: str) -> None:
        if is_missing(text) or has_invalid_utf8(text):
            return
        self.known += 1
        value = parse_number(text, self.decimal_comma)
        if value is not None:
            self.numeric += 1
            if len(self.numbers) <= _MAX_CLASSES:
                self.numbers.add(value)
        if len(self.texts) <= _MAX_CLASSES:
            self.texts.add(text.strip().lower())

    def is_numeric(self, task: str) -> bool:
        """Whether the labels are numbers, except for mistakes in single rows."""
        if not self.known:
            raise OutlandError(f"the target column '{self.name}' has no labels at all")
        share = self.numeric / self.known
        if 0.5 <= share < 0.9 and task == "auto":
            example = min(text for text in self.texts if parse_number(text, self.decimal_comma) is None)
            raise OutlandError(
                f"{1 - share:.0%} of the labels in '{self.name}' are no numbers, such as {example!r}: "
                "say what they are with --task binary, multiclass or regression"
            )
        return share >= 0.5 if task in ("binary", "regression") else share >= 0.9

    def infer_task(self, task: str) -> str:
        """The task that the user named, or for `auto` that of the values."""
        if task != "auto":
            return task
        if self.is_numeric(task):
            if self.numbers <= {0.0, 1.0}:
                return "binary"
            whole = all(value == int(value) for value in self.numbers)
            return "multiclass" if whole and len(self.numbers) <= _MAX_NUMBERED_CLASSES else "regression"
        return "binary" if len(self.texts) <= 2 else "multiclass"


@dataclass(frozen=True)
class LabelReader:
    """Reads the labels of a row."""

    targets: tuple[str, ...]
    task: Task
    classes: tuple[str, ...] = ()  # names in order and lower case, where labels are names or numbers of classes
    numeric: bool = True  # whether those names are numbers
    decimal_comma: bool = False  # see `parse_number`

    def read(self, row: Cells) -> tuple[list[float], tuple[str, str, str] | None]:
        """The labels of a row, NaN where unknown; or the column, value and reason why they cannot be used."""
        values = []
        for name in self.targets:
            text = row.get(name, "")
            value = math.nan if is_missing(text) else self._value(text)
            if value is None:
                return [], (name, text, self._reason())
            values.append(value)
        if all(math.isnan(value) for value in values):
            texts = " ".join(row.get(name, "") for name in self.targets).strip()
            return [], (", ".join(self.targets), texts, "no label")
        return values, None

    def _value(self, text: str) -> float | None:
        value = parse_number(text, self.decimal_comma) if self.numeric else None
        if self.classes:
            name = text.strip().lower() if not self.numeric else None if value is None else f"{value:g}"
            return float(self.classes.index(name)) if name in self.classes else None
        if value is not None and self.task.kind == "binary" and value not in (0.0, 1.0):
            return None
        return value

    def _reason(self) -> str:
        if self.classes:
            return f"the label is none of the classes {', '.join(self.classes)}"
        return "the label is not 0 or 1" if self.task.kind == "binary" else "the label is not a number"


def infer_labels(
    rows: Iterable[Cells], targets: Sequence[str], task: TaskKind = "auto", decimal_comma: bool = False
) -> LabelReader:
    """The reader of the target columns, by what is in all rows and the task that the user named."""
    summaries = {name: _ColumnSummary(name, decimal_comma) for name in targets}
    for row in rows:
        for name, summary in summaries.items():
            summary.add(row.get(name, ""))
    if len(targets) > 1:
        return _several_targets(summaries, task, decimal_comma)
    (summary,) = summaries.values()
    return _single_target(summary, summary.infer_task(task))


def _several_targets(summaries: dict[str, _ColumnSummary], task: TaskKind, decimal_comma: bool) -> LabelReader:
    binary = {summary.infer_task(task) for summary in summaries.values()} == {"binary"}
    for name, summary in summaries.items():
        if task == "multiclass" or not summary.is_numeric(task) or (binary and not summary.numbers <= {0.0, 1.0}):
            raise OutlandError(
                f"several targets must all be 0/1 or all be numbers, and '{name}' is not ({min(summary.texts)!r}): "
                "train it on its own"
            )
    outputs = len(summaries)
    joint = Task("binary", outputs, "rocauc") if binary else Task("regression", outputs, "rmse")
    return LabelReader(tuple(summaries), joint, decimal_comma=decimal_comma)


def _single_target(summary: _ColumnSummary, task: str) -> LabelReader:
    numeric = summary.is_numeric(task)
    reader = LabelReader((summary.name,), Task("regression", 1, "rmse"), (), numeric, summary.decimal_comma)
    if task == "regression":
        if not numeric:
            raise OutlandError(
                f"the target column '{summary.name}' holds names, such as {min(summary.texts)!r}, not numbers"
            )
        return reader
    if task == "binary" and numeric and summary.numbers == {0.0, 1.0}:
        return replace(reader, task=Task("binary", 1, "rocauc"))
    names = [f"{value:g}" for value in sorted(summary.numbers)] if numeric else sorted(summary.texts)
    if len(names) < 2:
        raise OutlandError(f"every label in '{summary.name}' is {names[0]!r}: there is nothing to tell apart")
    if len(names) > _MAX_CLASSES:
        raise OutlandError(
            f"the target column '{summary.name}' holds neither numbers nor classes: "
            f"over {_MAX_CLASSES} different labels, such as {names[0]!r}"
        )
    if task == "binary" and len(names) > 2:
        raise OutlandError(f"the target column '{summary.name}' holds {len(names)} different labels, not two")
    if task == "binary":
        if not numeric:
            names.sort(key=lambda name: name in _POSITIVE)
        return replace(reader, task=Task("binary", 1, "rocauc"), classes=tuple(names))
    return replace(reader, task=Task("multiclass", len(names), "accuracy"), classes=tuple(names))
