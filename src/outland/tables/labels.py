"""Labels of a table: what its target columns ask for (binary, multiclass, regression) and the values in them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from outland.errors import OutlandError, listed
from outland.graphs import Task
from outland.tables.cells import POSITIVE, is_missing, is_quantity, parse_limit, parse_number, parse_yes_no
from outland.tables.label_summary import MAX_CLASSES, LabelSummary
from outland.tables.reading import Cells

TaskKind = Literal["auto", "binary", "multiclass", "regression"]
Censored = Literal["ask", "drop", "value"]


@dataclass(frozen=True)
class LabelReader:
    """Reads the labels of a row."""

    targets: tuple[str, ...]
    task: Task
    # Names in order, where labels are names (whose case is nothing) or numbers of classes.
    classes: tuple[str, ...] = ()
    numeric: bool = True  # whether those names are numbers
    signs: bool = False  # whether `-` is a label, and no gap
    decimal_comma: bool = False  # see `parse_number`
    merge: bool = False  # whether words for yes and no are 1 and 0
    censored: Censored = "ask"  # what a limit such as `>10` is, where numbers are asked for

    def read(self, row: Cells) -> tuple[list[float], tuple[str, str, str] | None]:
        """The labels of a row, NaN where unknown; or the column, value and reason why they cannot be used."""
        values = []
        for name in self.targets:
            text = row.get(name, "")
            value = math.nan if self._is_gap(text) or self._is_dropped(text) else self._value(text)
            if value is None:
                return [], (name, text, self._reason(text))
            values.append(value)
        if all(math.isnan(value) for value in values):
            texts = " ".join(row.get(name, "") for name in self.targets).strip()
            limit = any(self._is_dropped(row.get(name, "")) for name in self.targets)
            return [], (", ".join(self.targets), texts, "a limit, no measured value" if limit else "no label")
        return values, None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name.lower(): number for number, name in enumerate(self.classes)}

    def _is_gap(self, text: str) -> bool:
        return is_missing(text) and not (self.signs and text.strip() == "-")

    def _is_dropped(self, text: str) -> bool:
        limits = self.task.kind == "regression" and self.censored == "drop"
        return limits and parse_limit(text, self.decimal_comma) is not None

    def _number(self, text: str) -> float | None:
        value = parse_number(text, self.decimal_comma)
        if value is None and self.merge:
            value = parse_yes_no(text)
        if value is None and self.task.kind == "regression" and self.censored == "value":
            value = parse_limit(text, self.decimal_comma)
        return value

    def _value(self, text: str) -> float | None:
        value = self._number(text) if self.numeric else None
        if self.classes:
            name = text.strip().lower() if not self.numeric else None if value is None else f"{value:.15g}"
            return float(self._numbers[name]) if name in self._numbers else None
        if value is not None and self.task.kind == "binary" and value not in (0.0, 1.0):
            return None
        return value

    def _reason(self, text: str) -> str:
        if self.classes:
            return f"the label is none of the classes {', '.join(self.classes)}"
        if self.task.kind == "binary":
            return "the label is not 0 or 1"
        if is_quantity(text):
            return "the label has a unit or something else beside its number"
        return "the label is not a number"


def infer_labels(
    rows: Iterable[Cells],
    targets: Sequence[str],
    task: TaskKind = "auto",
    decimal_comma: bool = False,
    merge: bool = False,
    censored: Censored = "ask",
) -> LabelReader:
    """The reader of the target columns, by what is in all rows and the task that the user named.

    Args:
        rows: of the table.
        targets: the columns of labels.
        task, merge, censored: as in `TableSettings`.
        decimal_comma: see `parse_number`.
    """
    summaries = {name: LabelSummary(name, decimal_comma, merge) for name in targets}
    for row in rows:
        for name, summary in summaries.items():
            summary.add(row.get(name, ""))
    for summary in summaries.values():
        summary.finish()
    if len(targets) > 1:
        reader = _several_targets(summaries, task)
    else:
        (summary,) = summaries.values()
        reader = _single_target(summary, summary.infer_task(task))
    if reader.task.kind == "regression" and censored == "ask":
        for summary in summaries.values():
            summary.check_limits()
    signs = any(summary.has_signs for summary in summaries.values())
    return replace(reader, decimal_comma=decimal_comma, merge=merge, censored=censored, signs=signs)


def _several_targets(summaries: dict[str, LabelSummary], task: TaskKind) -> LabelReader:
    """The reader of several targets: all yes or no, or all numbers."""
    kinds = {name: summary.infer_task(task) for name, summary in summaries.items()}
    binary = set(kinds.values()) == {"binary"}
    for name, summary in summaries.items():
        if task == "multiclass" or not summary.is_numeric(task) or (binary and not summary.numbers <= {0.0, 1.0}):
            words = None not in map(parse_yes_no, summary.texts)
            raise OutlandError(
                f"several targets must all be 0/1 or all be numbers, and '{name}' is not ({summary.example!r}): "
                f"train it on its own{', or read its words as 0 and 1 with --merge-labels' if words else ''}"
            )
    mixed = [name for name, kind in kinds.items() if kind == "binary"]
    if not binary and mixed and task == "auto":
        raise OutlandError(
            f"several targets must all be 0/1 or all be numbers: {listed(mixed)} {'is' if len(mixed) == 1 else 'are'} "
            "0/1 and others are not; train them apart, or say --task regression to take all as numbers"
        )
    constant = next((summary for summary in summaries.values() if binary and len(summary.numbers) == 1), None)
    if constant is not None:
        (number,) = constant.numbers
        raise OutlandError(
            f"every label in '{constant.name}' is {number:g}: there is nothing to tell apart; train the others alone"
        )
    outputs = len(summaries)
    joint = Task("binary", outputs, "rocauc") if binary else Task("regression", outputs, "rmse")
    return LabelReader(tuple(summaries), joint)


def _single_target(summary: LabelSummary, task: str) -> LabelReader:
    numeric = summary.is_numeric(task)
    reader = LabelReader((summary.name,), Task("regression", 1, "rmse"), (), numeric)
    if task == "regression":
        if not numeric:
            raise OutlandError(
                f"the target column '{summary.name}' holds names, such as {summary.example!r}, not numbers"
            )
        return reader
    if task == "binary" and numeric and summary.numbers == {0.0, 1.0}:
        return replace(reader, task=Task("binary", 1, "rocauc"))
    texts = sorted(summary.texts)
    if not numeric and task == "binary":
        texts.sort(key=lambda text: text in POSITIVE)
    names = (
        [f"{value:.15g}" for value in sorted(summary.numbers)] if numeric else [summary.texts[text] for text in texts]
    )
    if len(names) < 2:
        raise OutlandError(f"every label in '{summary.name}' is {names[0]!r}: there is nothing to tell apart")
    if len(names) > MAX_CLASSES:
        raise OutlandError(
            f"the target column '{summary.name}' holds neither numbers nor classes: "
            f"over {MAX_CLASSES} different labels, such as {names[0]!r}"
        )
    if task == "multiclass":
        return replace(reader, task=Task("multiclass", len(names), "accuracy"), classes=tuple(names))
    if len(names) > 2:
        raise OutlandError(f"the target column '{summary.name}' holds {len(names)} different labels, not two")
    return replace(reader, task=Task("binary", 1, "rocauc"), classes=tuple(names))
