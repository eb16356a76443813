"""The table of a study, as far as its runs are done, with tests and ranks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from outland.errors import OutlandError
from outland.studies.base import Cell, Column, Measurement, Row, Study
from outland.studies.comparisons import Comparison, Effect, PlannedTest, Ranks
from outland.studies.quantities import Quantity
from outland.studies.run_store import RunStore
from outland.studies.statistics import (
    LEVEL,
    Summary,
    auc_interval,
    average_ranks,
    cliques,
    critical_difference,
    friedman,
    holm,
    sign_flip_test,
    summarize,
)
from outland.training import RunRecord


def device_name(record: RunRecord) -> str:
    """What a run was computed on."""
    name = str(record.platform.get("device", "an unnamed device"))
    return "a CPU" if name == "cpu" else name


@dataclass
class Results:
    """Records and measurements of a study's runs, by cell and index of the run in it, and statistics of them."""

    study: Study
    cells: Sequence[Cell]
    words: Sequence[str] = ()  # the changes that they ran with, written `group.name=value`
    tuned: bool = False  # the settings are those that searches have found
    records: dict[str, dict[int, RunRecord]] = field(default_factory=dict)
    measurements: dict[str, dict[int, Measurement]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # errors of files that could not be read

    @classmethod
    def read(
        cls, study: Study, cells: Sequence[Cell], out: Path, words: Sequence[str] = (), tuned: bool = False
    ) -> "Results":
        """The results of the runs in a folder of studies."""
        results, store = cls(study, cells, words, tuned), RunStore(study, out)
        for cell in cells:
            for index, spec in enumerate(cell.specs):
                try:
                    measurement = store.measurement(spec)
                    record = store.record(spec) if cell.row.trained else None  # else it is another study's
                except OutlandError as problem:
                    results.problems.append(str(problem))
                    continue
                if record is not None:
                    results.records.setdefault(cell.name, {})[index] = record
                if measurement is not None:
                    results.measurements.setdefault(cell.name, {})[index] = measurement
        return results

    def with_begun_rows(self) -> "Results":
        """The results without those rows since the paper of which there are no runs."""
        begun = {
            cell.row.name for cell in self.cells if self.records.get(cell.name) or self.measurements.get(cell.name)
        }
        rows = tuple(row for row in self.study.rows if row not in self.study.newer or row.name in begun)
        cells = [cell for cell in self.cells if cell.row in rows]
        return replace(self, study=replace(self.study, rows=rows), cells=cells)

    @property
    def device_counts(self) -> list[tuple[str, int]]:
        """The devices that the runs were computed on, with the number of runs, those of most runs first."""
        records = (record for runs in self.records.values() for record in runs.values())
        return Counter(map(device_name, records)).most_common()

    @property
    def main_device(self) -> str | None:
        """The device of most runs."""
        return next((device for device, _ in self.device_counts), None)

    @property
    def repeats(self) -> int:
        """Number of seeds or folds a cell."""
        return max((len(cell.specs) for cell in self.cells), default=0)

    @property
    def has_default_counts(self) -> bool:
        """Whether every cell has as many seeds or folds as the study has for it."""
        return all(len(cell.specs) == self.study.default_count(cell.row, cell.column) for cell in self.cells)

    @property
    def is_whole(self) -> bool:
        """Whether these are all cells of the study."""
        return len(self.cells) == len(self.study.rows) * len(self.study.columns)

    @property
    def rows(self) -> list[Row]:
        """The rows of the cells, in order."""
        return list({cell.row.name: cell.row for cell in self.cells}.values())

    @property
    def columns(self) -> list[Column]:
        """The columns of the cells, in the study's order."""
        labels = {cell.column.label for cell in self.cells}
        return [column for column in self.study.columns if column.label in labels]

    def values(self, row: Row, column: Column, quantity: Quantity) -> dict[int, float]:
        """Values of a cell by index of the run, as they are shown."""
        values = self._absolute_values(row, column, quantity)
        if not quantity.relative:
            return values
        reference = self.reference(row)
        base = {} if reference is None else self._absolute_values(reference, column, quantity)
        return {run: 100 * (value / base[run] - 1) for run, value in values.items() if base.get(run)}

    def _absolute_values(self, row: Row, column: Column, quantity: Quantity) -> dict[int, float]:
        name = f"{row.name}/{column.label}"
        values: dict[int, float | None]
        if quantity.read is None:
            measurements = self.measurements.get(name, {})
            values = {run: measurement.values.get(quantity.name) for run, measurement in measurements.items()}
        else:
            records, device = self.records.get(name, {}), self.main_device if quantity.by_device else None
            runs = {run: record for run, record in records.items() if device in (None, device_name(record))}
            values = {run: quantity.read(record) for run, record in runs.items()}
        return {run: quantity.scale * value for run, value in values.items() if value is not None}

    def summary(self, row: Row, column: Column, quantity: Quantity) -> Summary | None:
        """Mean and spread of a cell; None while it is empty."""
        values = list(self.values(row, column, quantity).values())
        return summarize(values) if values else None

    def whole_summary(self, row: Row, column: Column, quantity: Quantity) -> Summary | None:
        """The summary of a cell whose runs are all there; None where some are missing."""
        counts = {cell.name: len(cell.specs) for cell in self.cells}
        summary = self.summary(row, column, quantity)
        return summary if summary is not None and summary.count >= counts[f"{row.name}/{column.label}"] else None

    def reference(self, row: Row) -> Row | None:
        """The row that a row is compared with: the reference of its own group, or the one of all."""
        references = {other.group: other for other in self.rows if other.label == self.study.reference}
        return references.get(row.group, references.get("")) if self.study.reference else None

    def comparisons(self, column: Column, quantity: Quantity) -> dict[str, Comparison]:
        """Every row of a column compared with its reference, by name of the row."""
        runs = {cell.row.name: tuple(spec.key for spec in cell.specs) for cell in self.cells if cell.column == column}
        tests: dict[str, tuple[list[float], float]] = {}
        for row in self.rows:
            reference = self.reference(row)
            if reference is None or not quantity.sign or not quantity.tested:
                continue
            if runs.get(row.name) == runs.get(reference.name):  # the reference itself, by another name perhaps
                continue
            values, base = self.values(row, column, quantity), self.values(reference, column, quantity)
            differences = [values[run] - base[run] for run in values if run in base]
            if quantity.relative:
                differences = list(values.values())
            if differences:
                p = sign_flip_test(differences) if len(differences) > 1 else float("nan")
                tests[row.name] = (differences, p)
        distinct = {name: (runs[name], tuple(differences)) for name, (differences, _) in tests.items()}
        tested = {distinct[name]: p for name, (_, p) in tests.items() if p == p}
        adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
        count = len(set(distinct.values()))
        return {
            name: _comparison(differences, p, adjusted.get(distinct[name], float("nan")), count, quantity.sign)
            for name, (differences, p) in tests.items()
        }

    def planned_tests(self, column: Column, quantity: Quantity) -> list[PlannedTest]:
        """The study's planned row beside its reference, and beside its best rival, where their runs are all there.

        That is the best mean of another method, known once the runs of all of them are there; the tests were planned
        before there were rows since the paper, which are no rivals.
        """
        row = next((row for row in self.rows if row.name == self.study.planned), None)
        reference = None if row is None else self.reference(row)
        if row is None or reference is None or not quantity.sign or quantity.relative or not quantity.tested:
            return []
        if self.whole_summary(row, column, quantity) is None:
            return []
        rivals = [other for other in self.rows if other.published != row.published and other not in self.study.newer]
        summaries = [self.whole_summary(rival, column, quantity) for rival in rivals]
        means = [quantity.sign * summary.mean for summary in summaries if summary is not None]
        against = [reference] if self.whole_summary(reference, column, quantity) is not None else []
        if means and len(means) == len(rivals):
            against.append(rivals[int(np.argmax(means))])
        values, tests = self.values(row, column, quantity), []
        for rival in against:
            base = self.values(rival, column, quantity)
            differences = [values[run] - base[run] for run in values if run in base]
            p = sign_flip_test(differences) if len(differences) > 1 else float("nan")
            tests.append(PlannedTest(rival.name, float(np.mean(differences)), len(differences), p))
        return tests

    def marks(self, column: Column, quantity: Quantity) -> dict[str, Literal["best", "second"]]:
        """The best and the second mean of a column, in each group of rows, newer ones in none; equal means share it.

        A cell of which runs are missing has no mark.
        """
        marks: dict[str, Literal["best", "second"]] = {}
        groups = {row.name: "" if row in self.study.newer else row.group for row in self.rows}
        for group in dict.fromkeys(groups.values()):
            means = {
                row.name: quantity.sign * summary.mean
                for row in self.rows
                if groups[row.name] == group and (summary := self.whole_summary(row, column, quantity)) is not None
            }
            ordered = sorted(set(means.values()), reverse=True)
            if quantity.sign and len(means) > 1 and len(ordered) > 1:
                marks |= {name: "best" for name, mean in means.items() if mean == ordered[0]}
                marks |= {name: "second" for name, mean in means.items() if mean == ordered[1]}
        return marks

    def ranks(self, quantity: Quantity) -> Ranks | None:
        """Average ranks over the columns where all runs of all rows but newer ones are; None with too few of either."""
        means = {
            (row.name, column.label): summary.mean
            for row in self.rows
            for column in self.columns
            if (summary := self.whole_summary(row, column, quantity)) is not None
        }

        def has_all(rows: Sequence[Row], columns: Sequence[Column]) -> bool:
            return all((row.name, column.label) in means for row in rows for column in columns)

        older = [row for row in self.rows if row not in self.study.newer]
        complete = [column for column in self.columns if has_all(older, [column])]
        rows = [row for row in self.rows if row in older or has_all([row], complete)]
        if len(complete) < 2 or len(rows) < 3 or not quantity.sign:
            return None
        scores = quantity.sign * np.array([[means[row.name, column.label] for column in complete] for row in rows])
        ranks = average_ranks(scores)
        order = np.argsort(ranks, kind="stable")
        critical = critical_difference(len(rows), len(complete))
        names, ordered = tuple(rows[index].name for index in order), tuple(ranks[order].tolist())
        return Ranks(names, ordered, len(complete), critical, friedman(scores), tuple(cliques(ordered, critical)))

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


def _comparison(differences: list[float], p: float, adjusted: float, comparisons: int, sign: int) -> Comparison:
    mean = float(np.mean(differences))
    effect: Effect = "not shown" if not adjusted < LEVEL else "better" if sign * mean > 0 else "worse"
    return Comparison(mean, len(differences), p, adjusted, comparisons, effect)
