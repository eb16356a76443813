"""The table of a study, as far as it is there, and what may be said of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from outland.errors import OutlandError, counted
from outland.studies.base import Cell, Column, Measured, Row, Study
from outland.studies.ledger import Ledger
from outland.studies.quantities import Quantity
from outland.studies.statistics import (
    LEVEL,
    Summary,
    auc_interval,
    average_ranks,
    cliques,
    critical_difference,
    friedman,
    holm,
    least_p,
    sign_flip_test,
    summarise,
)
from outland.training import RunRecord

Verdict = Literal["better", "worse", "not shown"]


@dataclass(frozen=True)
class Comparison:
    """A cell beside the reference in the same column, over the seeds that both have.

    Args:
        difference: mean over the pairs, as it is shown.
        pairs: how many there are.
        p: of the sign-flip test; NaN with fewer than two pairs.
        adjusted: the same, by Holm's correction over the comparisons of the column.
        verdict: `better` or `worse` only where the adjusted p is below 0.05.
    """

    difference: float
    pairs: int
    p: float
    adjusted: float
    verdict: Verdict


@dataclass(frozen=True)
class Ranks:
    """Average ranks over the columns that are complete.

    Args:
        rows: names, best first.
        ranks: their average ranks.
        columns: over how many columns.
        critical: difference that must be passed.
        p: of all ranking alike.
        groups: within which nothing is shown to differ.
    """

    rows: tuple[str, ...]
    ranks: tuple[float, ...]
    columns: int
    critical: float
    p: float
    groups: tuple[tuple[int, int], ...]


@dataclass
class Results:
    """What the runs of a study have given so far.

    Args:
        study, cells: which.
        words: the changes that they ran with, written `group.name=value`.
        tuned: the settings are those that searches have found.
        records: by cell, and by place of the run in it.
        measured: the same, of what was measured on top.
        problems: what could not be read.
    """

    study: Study
    cells: Sequence[Cell]
    words: Sequence[str] = ()
    tuned: bool = False
    records: dict[str, dict[int, RunRecord]] = field(default_factory=dict)
    measured: dict[str, dict[int, Measured]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def read(
        cls, study: Study, cells: Sequence[Cell], out: Path, words: Sequence[str] = (), tuned: bool = False
    ) -> "Results":
        """All that is there."""
        results, ledger = cls(study, cells, words, tuned), Ledger(study, out)
        for cell in cells:
            for place, spec in enumerate(cell.specs):
                try:
                    measured = ledger.measured(spec)
                    record = ledger.record(spec) if cell.row.trained else None  # else it is another study's
                except OutlandError as problem:
                    results.problems.append(str(problem))
                    continue
                if record is not None:
                    results.records.setdefault(cell.name, {})[place] = record
                if measured is not None:
                    results.measured.setdefault(cell.name, {})[place] = measured
        return results

    @property
    def repeats(self) -> int:
        """Seeds or folds a cell."""
        return max((len(cell.specs) for cell in self.cells), default=0)

    @property
    def whole(self) -> bool:
        """Whether every cell of the study is asked for."""
        return len(self.cells) == len(self.study.rows) * len(self.study.columns)

    def notices(self) -> list[str]:
        """What must be said beside every number: that it is not the paper's setting, or not the whole study."""
        lines, changed = [], [*self.words, *(["settings that searches have found"] if self.tuned else [])]
        if self.repeats != self.study.seeds:
            changed.append(f"{counted(self.repeats, self.study.repeats[:-1])}, not {self.study.seeds}")
        if changed:
            told = ", ".join(changed)
            lines.append(f"Our numbers are not of the paper's setting ({told}); the published ones beside them are.")
        if not self.whole:
            cells = len(self.study.rows) * len(self.study.columns)
            lines.append(f"This is a part of the study: {len(self.cells)} of its {cells} cells.")
        return lines

    @property
    def rows(self) -> list[Row]:
        """The rows that any cell has, in order."""
        return list({cell.row.name: cell.row for cell in self.cells}.values())

    @property
    def columns(self) -> list[Column]:
        """The columns that any cell has, in the study's order."""
        found = {cell.column.label for cell in self.cells}
        return [column for column in self.study.columns if column.label in found]

    def values(self, row: Row, column: Column, quantity: Quantity) -> dict[int, float]:
        """Numbers of a cell by place of the run, as they are shown."""
        mine = self._read(row, column, quantity)
        if not quantity.relative:
            return mine
        reference = self.reference(row)
        base = {} if reference is None else self._read(reference, column, quantity)
        return {place: 100 * (value / base[place] - 1) for place, value in mine.items() if base.get(place)}

    def _read(self, row: Row, column: Column, quantity: Quantity) -> dict[int, float]:
        """What records or measurements say."""
        name = f"{row.name}/{column.label}"
        found: dict[int, float | None]
        if quantity.read is None:
            found = {place: one.values.get(quantity.name) for place, one in self.measured.get(name, {}).items()}
        else:
            found = {place: quantity.read(record) for place, record in self.records.get(name, {}).items()}
        return {place: quantity.scale * value for place, value in found.items() if value is not None}

    def summary(self, row: Row, column: Column, quantity: Quantity) -> Summary | None:
        """Mean and spread of a cell; None while it is empty."""
        values = list(self.values(row, column, quantity).values())
        return summarise(values) if values else None

    def reference(self, row: Row) -> Row | None:
        """What a row is compared with: the reference of its own group, or the one of all."""
        if not self.study.reference:
            return None
        own = [one for one in self.rows if one.label == self.study.reference]
        return next((one for one in own if one.group == row.group), next((one for one in own if not one.group), None))

    def comparisons(self, column: Column, quantity: Quantity) -> dict[str, Comparison]:
        """Every row of a column beside its reference, by name of the row."""
        found: dict[str, tuple[list[float], float]] = {}
        for row in self.rows:
            reference = self.reference(row)
            if reference is None or row == reference or not quantity.sign:
                continue
            mine, base = self.values(row, column, quantity), self.values(reference, column, quantity)
            pairs = [mine[place] - base[place] for place in mine if place in base]
            if quantity.relative:
                pairs = list(mine.values())
            if pairs:
                found[row.name] = (pairs, sign_flip_test(pairs) if len(pairs) > 1 else float("nan"))
        tested = [name for name, (_, p) in found.items() if p == p]
        adjusted = dict(zip(tested, holm([found[name][1] for name in tested]), strict=True))
        return {
            name: _compared(pairs, p, adjusted.get(name, float("nan")), quantity.sign)
            for name, (pairs, p) in found.items()
        }

    def marks(self, column: Column, quantity: Quantity) -> dict[str, Literal["best", "second"]]:
        """The best and the second mean of a column, in each group of rows; equal means share a mark."""
        marks: dict[str, Literal["best", "second"]] = {}
        for group in dict.fromkeys(row.group for row in self.rows):
            means = {
                row.name: quantity.sign * found.mean
                for row in self.rows
                if row.group == group and (found := self.summary(row, column, quantity)) is not None
            }
            ordered = sorted(set(means.values()), reverse=True)
            if quantity.sign and len(means) > 1 and len(ordered) > 1:
                marks |= {name: "best" for name, mean in means.items() if mean == ordered[0]}
                marks |= {name: "second" for name, mean in means.items() if mean == ordered[1]}
        return marks

    def ranks(self, quantity: Quantity) -> Ranks | None:
        """Average ranks of the rows over the columns where all of them are; None with too few of either."""
        columns = [
            [found.mean for row in self.rows if (found := self.summary(row, column, quantity)) is not None]
            for column in self.columns
        ]
        whole = [means for means in columns if len(means) == len(self.rows)]
        if len(whole) < 2 or len(self.rows) < 3 or not quantity.sign:
            return None
        scores = quantity.sign * np.array(whole).T
        ranks = average_ranks(scores)
        order = np.argsort(ranks, kind="stable")
        critical = critical_difference(len(self.rows), len(whole))
        ordered = tuple(float(ranks[place]) for place in order)
        return Ranks(
            rows=tuple(self.rows[place].name for place in order),
            ranks=ordered,
            columns=len(whole),
            critical=critical,
            p=friedman(scores),
            groups=tuple(cliques(ordered, critical)),
        )

    def auc_interval(self, row: Row, column: Column) -> tuple[float, float, int, int] | None:
        """95% interval of a cell's mean test ROC-AUC in per cent, by the test graphs: its positives and negatives."""
        records = list(self.records.get(f"{row.name}/{column.label}", {}).values())
        if not records or records[0].metric != "rocauc" or "class_counts" not in records[0].data:
            return None
        scores = [record.test_score for record in records if record.test_score == record.test_score]
        if not scores:
            return None
        negatives, positives = records[0].data["class_counts"]["test"]
        low, high = auc_interval(float(np.mean(scores)), positives, negatives)
        return 100 * low, 100 * high, positives, negatives

    def sampling(self) -> list[str]:
        """A sentence for each column whose ROC-AUC rests on few graphs: how far its first row's could be off."""
        lines = []
        for column in self.columns:
            row = next((row for row in self.rows if self.auc_interval(row, column) is not None), None)
            found = None if row is None else self.auc_interval(row, column)
            if row is not None and found is not None:
                lines.append(
                    f"{column.label}: the test part has {found[2]:,} positives and {found[3]:,} negatives, so on other "
                    f"graphs of its kind the score of {row.name} could be anywhere from {found[0]:.1f} to "
                    f"{found[1]:.1f} (95%, Hanley and McNeil)."
                )
        return lines

    def weakness(self, quantity: Quantity) -> str:
        """A sentence where the seeds are too few for any difference to be shown; else nothing."""
        for column in self.columns:
            found = self.comparisons(column, quantity)
            pairs = max((one.pairs for one in found.values()), default=0)
            if found and pairs == 1:
                return "With one run a cell no difference can be tested."
            if found and least_p(pairs) * len(found) >= LEVEL:
                return (
                    f"With {pairs} {self.study.repeats} and {len(found)} comparisons a column, no difference can pass "
                    f"the test: the corrected p cannot fall below {min(1.0, least_p(pairs) * len(found)):.2g}."
                )
        return ""


def _compared(pairs: list[float], p: float, adjusted: float, sign: int) -> Comparison:
    difference = float(np.mean(pairs))
    shown = adjusted < LEVEL
    verdict: Verdict = "not shown" if not shown else "better" if sign * difference > 0 else "worse"
    return Comparison(difference, len(pairs), p, adjusted, verdict)
