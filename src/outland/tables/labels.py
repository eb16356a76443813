"""Labels of a table: what its target columns ask for (binary, multiclass, regression) and the values in them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from outland.chem.smiles import has_invalid_utf8
from outland.errors import OutlandError, counted, listed
from outland.graphs import Task
from outland.tables.cells import POSITIVE, is_missing, is_quantity, parse_limit, parse_number, parse_yes_no
from outland.tables.reading import Cells

TaskKind = Literal["auto", "binary", "multiclass", "regression"]
Censored = Literal["ask", "drop", "value"]
_MAX_CLASSES = 50
_MAX_NUMBERED_CLASSES = 10
_MAX_NAMED_CLASSES = 10  # above which names are looked at twice


@dataclass
class _ColumnSummary:
    """Counts and different values of one target column."""

    name: str
    decimal_comma: bool
    merge: bool = False
    known: int = 0
    numeric: int = 0
    limits: int = 0  # labels such as `>10`
    limit: str = ""  # the first of them
    quantities: int = 0  # labels such as `3.2 uM`
    quantity: str = ""  # the first of them
    minuses: int = 0  # cells that hold `-`, a label where others hold `+`, and else a gap
    numbers: set[float] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # in lower case, and as the first of them is spelled

    @property
    def example(self) -> str:
        """One of the labels."""
        return self.texts[min(self.texts)]

    @property
    def has_signs(self) -> bool:
        """Whether `-` is a label."""
        return self.minuses > 0 and "+" in self.texts

    def add(self, text: str) -> None:
        if text.strip() == "-":
            self.minuses += 1
        elif not is_missing(text) and not has_invalid_utf8(text):
            self._add_label(text)

    def finish(self) -> None:
        """Take `-` as a label where there is `+`; all cells have been added."""
        for _ in range(self.minuses if self.has_signs else 0):
            self._add_label("-")

    def _add_label(self, text: str) -> None:
        self.known += 1
        value = parse_number(text, self.decimal_comma)
        if value is None and self.merge:
            value = parse_yes_no(text)
        if value is not None:
            self.numeric += 1
            if len(self.numbers) <= _MAX_CLASSES:
                self.numbers.add(value)
        elif parse_limit(text, self.decimal_comma) is not None:
            self.limits += 1
            self.limit = self.limit or text.strip()[:40]
        elif is_quantity(text):
            self.quantities += 1
            self.quantity = self.quantity or text.strip()[:40]
        if len(self.texts) <= _MAX_CLASSES:
            self.texts.setdefault(text.strip().lower(), text.strip())

    def is_numeric(self, task: str) -> bool:
        """Whether the labels are numbers, except for mistakes in single rows."""
        if not self.known:
            raise OutlandError(f"the target column '{self.name}' has no labels at all")
        self._ask_to_merge(task)
        share = (self.numeric + (self.limits if self.numeric else 0)) / self.known
        if 0.5 <= share < 0.9 and task == "auto":
            example = self.texts[min(text for text in self.texts if parse_number(text, self.decimal_comma) is None)]
            raise OutlandError(
                f"{1 - share:.0%} of the labels in '{self.name}' are no numbers, such as {example!r}: "
                "say what they are with --task binary, multiclass or regression"
            )
        return share >= 0.5 if task in ("binary", "regression") else share >= 0.9

    def _ask_to_merge(self, task: str) -> None:
        """Ask whether words for yes and no are to be merged, where there are more than two."""
        meanings = {text: parse_yes_no(text) for text in sorted(self.texts)}
        if self.merge or task == "multiclass" or len(meanings) < 3 or None in meanings.values():
            return
        if all(parse_number(text) is not None for text in meanings):
            return  # TRUE is 1 wherever there are numbers
        groups = [
            listed([repr(self.texts[text]) for text, value in meanings.items() if value == number])
            for number in (1.0, 0.0)
        ]
        raise OutlandError(
            f"'{self.name}' holds {len(meanings)} different labels that may mean two: {groups[0]} for 1, "
            f"{groups[1]} for 0. Merge them with --merge-labels, or keep them apart with --task multiclass"
        )

    def check_limits(self, censored: Censored) -> None:
        """Ask what is to become of limits among numbers."""
        if self.limits and censored == "ask":
            raise OutlandError(
                f"{counted(self.limits, 'label')} of {self.known:,} in '{self.name}' "
                f"{'is a limit' if self.limits == 1 else 'are limits'}, such as {self.limit!r}: "
                "--censored drop leaves them out, --censored value takes the numbers as if they were measured"
            )

    def infer_task(self, task: str) -> str:
        """The task that the user named, or for `auto` that of the values."""
        if task != "auto":
            return task
        if self.is_numeric(task):
            if self.numbers <= {0.0, 1.0} and not self.limits:
                return "binary"
            whole = all(value == int(value) for value in self.numbers)
            few = len(self.numbers) <= _MAX_NUMBERED_CLASSES
            return "multiclass" if whole and few and not self.limits else "regression"
        self._check_names()
        return "binary" if len(self.texts) <= 2 else "multiclass"

    def _check_names(self) -> None:
        """Refuse names that are hardly meant for classes: numbers with something beside them, and a name for a row."""
        if len(self.texts) <= _MAX_NAMED_CLASSES:
            return
        if 2 * self.quantities > self.known:
            raise OutlandError(
                f"most labels in '{self.name}' are numbers with something else beside them, such as {self.quantity!r}: "
                "leave the number alone in its cell, in one unit for all rows; if they are names, say --task multiclass"
            )
        if len(self.texts) <= _MAX_CLASSES and 2 * len(self.texts) > self.known:
            raise OutlandError(
                f"the target column '{self.name}' holds neither numbers nor classes: {len(self.texts)} different "
                f"labels in {counted(self.known, 'row')}, such as {self.example!r}; if they are classes all "
                "the same, say --task multiclass"
            )


@dataclass(frozen=True)
class LabelReader:
    """Reads the labels of a row."""

    targets: tuple[str, ...]
    task: Task
    classes: tuple[
        str, ...
    ] = ()  # names in order, where labels are names (whose case is nothing) or numbers of classes
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
                return [], (name, text, self._reason())
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
            name = text.strip().lower() if not self.numeric else None if value is None else f"{value:g}"
            return float(self._numbers[name]) if name in self._numbers else None
        if value is not None and self.task.kind == "binary" and value not in (0.0, 1.0):
            return None
        return value

    def _reason(self) -> str:
        if self.classes:
            return f"the label is none of the classes {', '.join(self.classes)}"
        return "the label is not 0 or 1" if self.task.kind == "binary" else "the label is not a number"


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
    summaries = {name: _ColumnSummary(name, decimal_comma, merge) for name in targets}
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
    if reader.task.kind == "regression":
        for summary in summaries.values():
            summary.check_limits(censored)
    signs = any(summary.has_signs for summary in summaries.values())
    return replace(reader, decimal_comma=decimal_comma, merge=merge, censored=censored, signs=signs)


def _several_targets(summaries: dict[str, _ColumnSummary], task: TaskKind) -> LabelReader:
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


def _single_target(summary: _ColumnSummary, task: str) -> LabelReader:
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
    names = [f"{value:g}" for value in sorted(summary.numbers)] if numeric else [summary.texts[text] for text in texts]
    if len(names) < 2:
        raise OutlandError(f"every label in '{summary.name}' is {names[0]!r}: there is nothing to tell apart")
    if len(names) > _MAX_CLASSES:
        raise OutlandError(
            f"the target column '{summary.name}' holds neither numbers nor classes: "
            f"over {_MAX_CLASSES} different labels, such as {names[0]!r}"
        )
    if task == "multiclass":
        return replace(reader, task=Task("multiclass", len(names), "accuracy"), classes=tuple(names))
    if len(names) > 2:
        raise OutlandError(f"the target column '{summary.name}' holds {len(names)} different labels, not two")
    return replace(reader, task=Task("binary", 1, "rocauc"), classes=tuple(names))
