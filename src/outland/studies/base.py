"""What a study is: rows and columns, and the runs behind every cell of the table."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from outland.errors import OutlandError, counted, unknown
from outland.methods import method_settings
from outland.settings import parse_assignments
from outland.spec import GROUPS
from outland.studies.quantities import TEST, Quantity
from outland.training import RunSpec

Changes = Mapping[str, Mapping[str, Any]]
Figure = Literal["bars", "curves", "ranks", "learning", "masks", "augmented"]


@dataclass(frozen=True)
class Row:
    """A method as the study has it.

    Args:
        label: in the table, as the paper writes it.
        method: NAME or NAME:PRESET.
        changes: of its settings, by group and name.
        group: what it stands under in the table, where rows are grouped.
        trained: whether a model must be trained before anything can be measured.
    """

    label: str
    method: str
    changes: Changes = field(default_factory=dict)
    group: str = ""
    trained: bool = True

    @property
    def name(self) -> str:
        """Unique among the rows."""
        return f"{self.group} {self.label}".strip()


@dataclass(frozen=True)
class Column:
    """A dataset under a shift; in ten-fold studies the domain is the fold, and is left open."""

    label: str
    dataset: str
    domain: str = ""
    kind: str = "covariate"


@dataclass(frozen=True)
class Cell:
    """A row under a column, with its runs: one a seed, or one a fold."""

    row: Row
    column: Column
    specs: tuple[RunSpec, ...]

    @property
    def name(self) -> str:
        """What `--only` calls it."""
        return f"{self.row.name}/{self.column.label}"


@dataclass(frozen=True)
class Measured:
    """What was measured on top of a run.

    Args:
        values: numbers by quantity.
        pictures: graphs with masks, as `studies.pictures` makes them.
    """

    values: dict[str, float]
    pictures: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.values, dict) or not all(
            isinstance(name, str) and isinstance(one, int | float) and not isinstance(one, bool)
            for name, one in self.values.items()
        ):
            raise TypeError(f"values must be numbers by name, not {self.values!r:.60}")
        if not isinstance(self.pictures, list) or not all(isinstance(one, dict) for one in self.pictures):
            raise TypeError(f"pictures must be a list of them, not {self.pictures!r:.60}")


Measure = Callable[..., Measured]


@dataclass(frozen=True)
class Study:
    """A table of the paper as a declaration.

    Args:
        name: on the command line.
        title: over its page.
        question: what it asks, in a sentence.
        rows, columns: of the table; every pair is a cell.
        reference: the row that others are compared with; empty where none is.
        repeats: what a cell's runs differ in: `seeds` or `folds`.
        seeds: how many there are by default.
        quantities: what is read from each run; the first is the one that is tested and ranked.
        paper: the paper's table of the same, by its name in `paper-tables.json`.
        measure: measures a finished run further, where its record does not tell.
        measure_trains: whether the measure carries out a training of its own.
        figures: on the page.
        note: what a reader should know.
    """

    name: str
    title: str
    question: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    reference: str = "ERM"
    repeats: Literal["seeds", "folds"] = "seeds"
    seeds: int = 10
    quantities: tuple[Quantity, ...] = (TEST,)
    paper: str = ""
    measure: Measure | None = None
    measure_trains: bool = False
    figures: tuple[Figure, ...] = ("learning",)
    note: str = ""

    def trains(self, cell: Cell) -> bool:
        """Whether a cell's runs take the time of a training."""
        return cell.row.trained or self.measure_trains

    def cells(self, seeds: int | None = None, words: Iterable[str] = (), only: Iterable[str] = ()) -> list[Cell]:
        """Every cell with its runs.

        Args:
            seeds: how many runs a cell.
            words: changes of every run, written `group.name=value`; what a row is about is not changed.
            only: rows, groups of rows, columns, datasets, ROW/COLUMN, or patterns of these; what any of them names is
                kept.
        """
        count = self.seeds if seeds is None else seeds
        if count < 1 or (self.repeats == "folds" and count > self.seeds):
            most = f" to {self.seeds}" if self.repeats == "folds" else " or more"
            raise OutlandError(f"the number of {self.repeats} must be 1{most}, not {count}")
        given = parse_assignments(words, GROUPS)
        pairs = self._kept([(row, column) for row in self.rows for column in self.columns], list(only))
        _check_settings(dict.fromkeys(given["method"]), list({row.name: row for row, _ in pairs}.values()))
        return [self._cell(row, column, count, given) for row, column in pairs]

    def _cell(self, row: Row, column: Column, count: int, given: Changes) -> Cell:
        changes = {group: {**given.get(group, {}), **row.changes.get(group, {})} for group in GROUPS}

        def spec(domain: str) -> RunSpec:
            return RunSpec.make(column.dataset, row.method, domain=domain, kind=column.kind, changes=changes)

        if self.repeats == "folds":
            return Cell(row, column, tuple(spec(f"fold{fold}") for fold in range(count)))
        first = spec(column.domain)
        return Cell(row, column, tuple(replace(first, seed=seed) for seed in range(count)))

    def _kept(self, pairs: list[tuple[Row, Column]], only: list[str]) -> list[tuple[Row, Column]]:
        """The pairs that any of the patterns names."""
        if not only:
            return pairs
        kept: set[int] = set()
        for pattern in only:
            if not pattern.strip():
                raise OutlandError("--only is empty: name a ROW, a COLUMN or ROW/COLUMN, or leave it out for all")
            hits = {
                place
                for place, (row, column) in enumerate(pairs)
                if any(fnmatchcase(name.lower(), pattern.strip().lower()) for name in _names(row, column))
            }
            if not hits:
                names = [row.name for row in self.rows] + [column.label for column in self.columns]
                raise unknown(f"cell of the study {self.name}", pattern, [*dict.fromkeys(names), "ROW/COLUMN"])
            kept |= hits
        return [pair for place, pair in enumerate(pairs) if place in kept]


def _names(row: Row, column: Column) -> list[str]:
    """All that a cell may be called."""
    rows, columns = [row.name, row.label, *filter(None, [row.group])], [column.label, column.dataset]
    return [*rows, *columns, *(f"{one}/{other}" for one in rows for other in columns)]


def _check_settings(names: Iterable[str], rows: Sequence[Row]) -> None:
    """Refuse a setting that only some of the rows have, and say how to keep to those."""
    for name in names:
        have = [row.name for row in rows if name in asdict(method_settings(row.method, {}))]
        lack = [row.name for row in rows if row.name not in have]
        if have and lack:
            named = f"{', '.join(lack[:3])}" + (f" and {counted(len(lack) - 3, 'other row')}" if lack[3:] else "")
            keep = " ".join(f"--only {shlex.quote(one)}" for one in have)
            raise OutlandError(f"method.{name} is not a setting of {named}: keep to rows that have it, as in {keep}")
