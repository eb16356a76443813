"""The rows of a user's table that can be used, and why the others cannot."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from outland.datasets.clusters import cluster
from outland.datasets.labels import Labels, TaskKind, number
from outland.datasets.smiles import Chunk, numbered, pack
from outland.datasets.tables import Row, need
from outland.errors import OutlandError
from outland.files import checksum
from outland.graphs import PackedGraphs

Refusal = tuple[int, str, str, str]  # row, column, value, reason


@dataclass(frozen=True)
class TableSettings:
    """Which table, and what its columns are.

    Args:
        file: the table; CSV, TSV or Parquet, gzip'd or not.
        smiles: column of SMILES.
        target: column of labels, or several separated by commas.
        task: what the labels ask for; `auto` looks at them.
        environment: column of environments.
        split: column that says train, val or test (for the split `column`).
        time: column to order by (for the split `time`): numbers, or dates written year first.
        strict: refuse the table if any row cannot be used, instead of setting such rows aside.
        sha256: of the file; filled in when it is opened, so that another file is another run.
    """

    file: str
    smiles: str = "smiles"
    target: str = ""
    task: TaskKind = "auto"
    environment: str | None = None
    split: str | None = None
    time: str | None = None
    strict: bool = False
    sha256: str | None = None

    @property
    def targets(self) -> list[str]:
        """The target columns."""
        return [name.strip() for name in self.target.split(",") if name.strip()]

    def opened(self) -> "TableSettings":
        """Check the file and its columns, and take its checksum."""
        path = Path(self.file)
        if not self.targets:
            raise OutlandError("which column holds the labels? Name it with --target")
        named = [self.smiles, *self.targets, self.environment, self.split, self.time]
        need(path, [name for name in named if name])
        return replace(self, sha256=checksum(path))


class UsableRows:
    """Gathers the rows that can be used, chunk by chunk, and the reasons why others cannot.

    Args:
        settings: the table's columns.
        labels: how to read its targets.
    """

    def __init__(self, settings: TableSettings, labels: Labels) -> None:
        self.settings, self.labels = settings, labels
        self.molecules: list[Any] = []
        self.y: list[list[float]] = []
        self.columns: dict[str, list[str]] = {name: [] for name in ("environment", "split") if getattr(settings, name)}
        self.time: list[float] = []
        self.rows: list[int] = []
        self.scaffolds: list[str] = []
        self.canonical: list[str] = []
        self.fingerprints: list[bytes] = []
        self.refused: list[Refusal] = []

    def take(self, chunk: Chunk, rows: Iterator[Row]) -> None:
        """Match a chunk of molecules with the rows they came from; rows count from 1."""
        failures = dict(chunk.failures)
        positions = {place: position for position, place in enumerate(chunk.places)}
        for place in sorted([*failures, *positions]):
            cells = next(rows)
            if place in failures:
                self._refuse(place + 1, self.settings.smiles, cells.get(self.settings.smiles, ""), failures[place])
            else:
                self._use(place + 1, cells, chunk, positions[place])

    def _refuse(self, row: int, column: str, value: str, reason: str) -> None:
        shown = value.encode("utf-8", "backslashreplace").decode()
        self.refused.append((row, column, shown if len(shown) <= 80 else shown[:77] + "...", reason))

    def _use(self, row: int, cells: Row, chunk: Chunk, position: int) -> None:
        y, problem = self.labels.read(cells)
        if problem is not None:
            self._refuse(row, *problem)
            return
        moment = _moment(cells.get(self.settings.time, "")) if self.settings.time else 0.0
        if moment is None:
            self._refuse(
                row, self.settings.time or "", cells.get(self.settings.time or "", ""), "neither number nor date"
            )
            return
        for name, values in self.columns.items():
            values.append(cells.get(getattr(self.settings, name), "").strip())
        self.time.append(moment)
        self.y.append(y)
        self.rows.append(row)
        self.molecules.append(chunk.molecules[position])
        self.scaffolds.append(chunk.scaffolds[position])
        self.canonical.append(chunk.canonical[position])
        if chunk.fingerprints:
            self.fingerprints.append(chunk.fingerprints[position])

    def graphs(self) -> PackedGraphs:
        """The usable rows as graphs."""
        if not self.molecules:
            row, column, value, reason = self.refused[0]
            first = f"row {row}, column '{column}': {reason} ({value!r})"
            raise OutlandError(f"no row of {self.settings.file} can be used; the first: {first}")
        y = torch.tensor(self.y)
        if self.labels.task.kind == "multiclass":
            y = y.squeeze(1).long()
        extra = {"row": torch.tensor(self.rows), "scaffold": numbered(self.scaffolds)}
        if self.settings.time:
            extra["time"] = torch.tensor(self.time, dtype=torch.double)
        if "split" in self.columns:
            extra["split"] = numbered(self.columns["split"])
        if self.fingerprints:
            extra["cluster"] = cluster(self.fingerprints)
        environment = numbered(self.columns["environment"]) if "environment" in self.columns else None
        return pack(self.molecules, y, extra=extra, environment=environment)

    def findings(self) -> dict[str, Any]:
        """What a person should know of the table."""
        seen: dict[str, set[str]] = {}
        for name, y in zip(self.canonical, self.y, strict=True):
            seen.setdefault(name, set()).add(str(y))
        return {
            "rows": len(self.rows) + len(self.refused),
            "used": len(self.rows),
            "quarantine": [list(refusal) for refusal in sorted(self.refused)],
            "duplicates": len(self.canonical) - len(seen),
            "contradictions": sum(len(labels) > 1 for labels in seen.values()),
            "fragments": sum("." in name for name in self.canonical),
            "split_words": list(dict.fromkeys(self.columns.get("split", []))),
        }


def _moment(text: str) -> float | None:
    """A number, or a date written year first, as a number that grows with time."""
    value = number(text)
    if value is not None:
        return value
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError:
        return None
