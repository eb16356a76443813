"""A study: rows and columns of a table, and the runs behind every cell."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from outland.errors import OutlandError, counted, unknown
from outland.methods import method_settings
from outland.settings import is_valid, parse_assignments
from outland.spec import GROUPS, RunSpec
from outland.studies.quantities import TEST, Quantity

Changes = Mapping[str, Mapping[str, Any]]
MAX_SEEDS = 10_000  # of a cell
FigureName = Literal["bars", "curves", "ranks", "learning", "masks", "augmented"]


@dataclass(frozen=True)
class Row:
    """A method with changes of its settings."""

    label: str  # in the table
    method: str  # NAME or NAME:PRESET
    changes: Changes = field(default_factory=dict)  # of its settings, by group and name
    group: str = ""  # heading above it in the table, where rows are grouped
    trained: bool = True  # whether a model must be trained before anything can be measured
    paper: str = ""  # its label in the paper's tables, where that is another
    seeds: int | None = None  # of its cells, where not the study's

    @property
    def name(self) -> str:
        """Group and label, unique among the rows."""
        return f"{self.group} {self.label}".strip()

    @property
    def published(self) -> str:
        """Its label in published tables."""
        return self.paper or self.label


@dataclass(frozen=True)
class Column:
    """A dataset under a shift; in ten-fold studies the domain is the fold, and is left open."""

    label: str
    dataset: str
    domain: str = ""
    kind: str = "covariate"
    seeds: int | None = None  # most that a cell has by default


@dataclass(frozen=True)
class Cell:
    """A row under a column, with the specs of its runs: one a seed, or one a fold."""

    row: Row
    column: Column
    specs: tuple[RunSpec, ...]

    @property
    def name(self) -> str:
        """ROW/COLUMN, as in `--only`."""
        return f"{self.row.name}/{self.column.label}"


@dataclass(frozen=True)
class Measurement:
    """Quantities measured on top of a run, by name, and pictures of masks, as `studies.pictures` makes them."""

    values: dict[str, float]
    pictures: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not is_valid(self.values, dict[str, float]):
            raise TypeError(f"values must be numbers by name, not {self.values!r:.60}")
        if not is_valid(self.pictures, list[dict[str, Any]]):
            raise TypeError(f"pictures must be a list of them, not {self.pictures!r:.60}")


Measure = Callable[..., Measurement]


@dataclass(frozen=True)
class Study:
    """A table of the paper as a declaration; every pair of a row and a column is a cell."""

    name: str  # on the command line
    title: str  # over its page
    question: str  # what it asks, in a sentence
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    reference: str = "ERM"  # the row that others are compared with; empty where none is
    repeats: Literal["seeds", "folds"] = "seeds"  # what a cell's runs differ in
    seeds: int = 10  # or folds: how many there are by default, where neither row nor column says
    planned: str = ""  # the row whose tests against the reference and against the best rival were planned
    quantities: tuple[Quantity, ...] = (TEST,)  # read from each run; the first is the one that is tested and ranked
    paper: str = ""  # the paper's table of the same, by its name in `paper-tables.json`
    measure: Measure | None = None  # function that measures what the record of a finished run does not hold
    measure_trains: bool = False  # whether that function trains a model of its own
    figures: tuple[FigureName, ...] = ("learning",)  # on the page
    note: str = ""  # what a reader should know
    newer: tuple[Row, ...] = ()  # rows of methods since the paper, which are left out unless they are asked for

    def with_newer(self) -> "Study":
        """The study with the rows since the paper."""
        return replace(self, rows=(*self.rows, *self.newer))

    @property
    def has_newer(self) -> bool:
        """Whether any row is of those since the paper."""
        return any(row in self.rows for row in self.newer)

    def display_name(self, row: Row) -> str:
        """Its label, after its group where another row has the same label."""
        return row.name if sum(other.label == row.label for other in self.rows) > 1 else row.label

    def trains(self, cell: Cell) -> bool:
        """Whether a cell's runs take the time of a training."""
        return cell.row.trained or self.measure_trains

    def cells(self, seeds: int | None = None, words: Iterable[str] = (), only: Iterable[str] = ()) -> list[Cell]:
        """Every cell with the specs of its `seeds` runs; by default as many as the study has for it.

        `words` are changes of every run, written `group.name=value`; a row's own changes go before them. `only` names
        rows, groups of rows, columns, datasets, ROW/COLUMN, or patterns of these; a cell that any names is selected.
        """
        most = self.seeds if self.repeats == "folds" else MAX_SEEDS
        if seeds is not None and not 1 <= seeds <= most:
            raise OutlandError(f"the number of {self.repeats} must be 1 to {most:,}, not {seeds}")
        changes = parse_assignments(words, GROUPS)
        pairs = self._select([(row, column) for row in self.rows for column in self.columns], list(only))
        _check_settings(dict.fromkeys(changes["method"]), list({row.name: row for row, _ in pairs}.values()))
        counts = [self.default_count(row, column) if seeds is None else seeds for row, column in pairs]
        return [self._cell(*pair, count, changes) for pair, count in zip(pairs, counts, strict=True)]

    def default_count(self, row: Row, column: Column) -> int:
        """Seeds, or folds, of a cell: the row's number, else the study's, and no more than the column's."""
        count = row.seeds or self.seeds
        return min(count, column.seeds or count)

    def _cell(self, row: Row, column: Column, count: int, common: Changes) -> Cell:
        changes = {group: {**common.get(group, {}), **row.changes.get(group, {})} for group in GROUPS}

        def spec(domain: str) -> RunSpec:
            return RunSpec.make(column.dataset, row.method, domain=domain, kind=column.kind, changes=changes)

        if self.repeats == "folds":
            return Cell(row, column, tuple(spec(f"fold{fold}") for fold in range(count)))
        first = spec(column.domain)
        return Cell(row, column, tuple(replace(first, seed=seed) for seed in range(count)))

    def _select(self, pairs: list[tuple[Row, Column]], only: list[str]) -> list[tuple[Row, Column]]:
        if not only:
            return pairs
        selected: list[tuple[Row, Column]] = []
        for pattern in only:
            if not pattern.strip():
                raise OutlandError("--only is empty: name a ROW, a COLUMN or ROW/COLUMN, or leave it out for all")
            lower = pattern.strip().lower()
            matches = [pair for pair in pairs if any(fnmatchcase(name.lower(), lower) for name in _names(*pair))]
            newer = [(row, column) for row in self.newer for column in self.columns]
            if not matches and any(fnmatchcase(name.lower(), lower) for pair in newer for name in _names(*pair)):
                raise OutlandError(f"'{pattern}' is of a method since the paper: add --all")
            if not matches:
                names = [name for row in self.rows for name in (row.published, row.name)]
                names += [column.label for column in self.columns]
                raise unknown(f"cell of the study {self.name}", pattern, [*dict.fromkeys(names), "ROW/COLUMN"])
            selected += matches
        return [pair for pair in pairs if pair in selected]


def _names(row: Row, column: Column) -> list[str]:
    """All names of a cell in `--only`."""
    rows, columns = [row.name, row.label, row.published, *filter(None, [row.group])], [column.label, column.dataset]
    return [*rows, *columns, *(f"{first}/{second}" for first in rows for second in columns)]


def _check_settings(names: Iterable[str], rows: Sequence[Row]) -> None:
    """Raise an error for a setting that only some of the rows have, and say how to select those."""
    for name in names:
        have = [row.name for row in rows if name in asdict(method_settings(row.method, {}))]
        lack = [row.name for row in rows if row.name not in have]
        if have and lack:
            listed = f"{', '.join(lack[:3])}" + (f" and {counted(len(lack) - 3, 'other row')}" if lack[3:] else "")
            keep = " ".join(f"--only {shlex.quote(row)}" for row in have)
            raise OutlandError(f"method.{name} is not a setting of {listed}: keep to rows that have it, as in {keep}")
