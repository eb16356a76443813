"""The rows of a user's table that can be used, and why the others cannot."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

import torch

from outland.chem.clusters import cluster
from outland.chem.smiles import Chunk, has_invalid_utf8, pack_molecules
from outland.errors import OutlandError
from outland.graphs import PackedGraphs
from outland.graphs.shards import Shards
from outland.tables.duplicates import text_hash
from outland.tables.labels import Labels, number
from outland.tables.reading import Row
from outland.tables.settings import TableSettings

Refusal = tuple[int, str, str, str]  # row, column, value, reason


class UsableRows:
    """Gathers the rows that can be used, chunk by chunk, and the reasons why others cannot.

    Args:
        settings: the table's columns.
        labels: how to read its targets.
    """

    def __init__(self, settings: TableSettings, labels: Labels) -> None:
        self.settings, self.labels = settings, labels
        self.sets = Shards()
        self.words: dict[str, dict[str, int]] = {name: {} for name in ("environment", "split", "scaffold")}
        self.dated: bool | None = None  # whether times are dates; the first row decides
        self.fingerprints: list[bytes] = []
        self.refused: list[Refusal] = []
        self.seen: dict[bytes, tuple[int, str]] = {}  # molecules by a short hash: number, and the label first seen
        self.contradicted: set[bytes] = set()
        self.used = self.fragments = 0

    def take(self, chunk: Chunk, rows: Iterator[Row]) -> None:
        """Match a chunk of molecules with the rows they came from; rows count from 1."""
        failures = dict(chunk.failures)
        positions = {place: position for position, place in enumerate(chunk.indices)}
        kept: list[tuple[int, list[float], dict[str, float]]] = []
        for place in sorted([*failures, *positions]):
            cells = next(rows)
            if place in failures:
                self._refuse(place + 1, self.settings.smiles, cells.get(self.settings.smiles, ""), failures[place])
                continue
            facts = self._read(place + 1, cells)
            if facts is not None:
                kept.append((positions[place], *facts))
        if kept:
            self._keep(chunk, kept)

    def _keep(self, chunk: Chunk, kept: list[tuple[int, list[float], dict[str, float]]]) -> None:
        """Pack the usable molecules of a chunk at once: packed, they take a tenth of the room."""
        for position, y, facts in kept:
            facts["scaffold"] = _code(self.words["scaffold"], chunk.scaffolds[position])
            facts["molecule"] = self._count(chunk.canonical[position], y)
            if chunk.fingerprints:
                self.fingerprints.append(chunk.fingerprints[position])
        labels = torch.tensor([row[1] for row in kept])
        if self.labels.task.kind == "multiclass":
            labels = labels.squeeze(1).long()
        columns = {name: [row[2][name] for row in kept] for name in kept[0][2]}
        whole = {
            name: torch.tensor(values, dtype=torch.double if name == "time" else torch.long)
            for name, values in columns.items()
        }
        environment = whole.pop("environment", None)
        molecules = [chunk.molecules[row[0]] for row in kept]
        self.sets.add(pack_molecules(molecules, labels, extra=whole, environment=environment))
        self.used += len(kept)

    def _count(self, canonical: str, y: list[float]) -> int:
        """Put a molecule down and return its number, which rows of the same molecule share."""
        key, label = blake2b(canonical.encode(), digest_size=10).digest(), str(y)
        place, first = self.seen.setdefault(key, (len(self.seen), label))
        if first != label:
            self.contradicted.add(key)
        self.fragments += "." in canonical
        return place

    def _refuse(self, row: int, column: str, value: str, reason: str) -> None:
        shown = value.encode("utf-8", "backslashreplace").decode()
        self.refused.append((row, column, shown if len(shown) <= 80 else shown[:77] + "...", reason))

    def _read(self, row: int, cells: Row) -> tuple[list[float], dict[str, float]] | None:
        """Labels and other facts of a row; None, with the reason put down, where they cannot be used."""
        settings = self.settings
        for name in (*settings.targets, settings.environment, settings.split, settings.time):
            if name and has_invalid_utf8(cells.get(name, "")):
                self._refuse(row, name, cells[name], "bytes that are not UTF-8")
                return None
        y, problem = self.labels.read(cells)
        if problem is not None:
            self._refuse(row, *problem)
            return None
        facts: dict[str, float] = {"row": row, "hash": text_hash(cells.get(settings.smiles, ""))}
        for name in ("environment", "split"):
            column = getattr(settings, name)
            if column and not cells.get(column, "").strip():
                self._refuse(row, column, "", f"no {name}")
                return None
            if column:
                facts[name] = _code(self.words[name], cells[column].strip())
        if settings.time:
            moment = self._moment(cells.get(settings.time, ""))
            if moment is None:
                law = "not a date, as others are" if self.dated else "neither number nor date, as others are"
                self._refuse(row, settings.time, cells.get(settings.time, ""), law)
                return None
            facts["time"] = moment
        return y, facts

    def _moment(self, text: str) -> float | None:
        """A number, or a date written year first, as a number that grows with time; one or the other in a column."""
        value = number(text)
        if value is not None:
            self.dated = bool(self.dated)
            return None if self.dated else value
        try:
            moment = datetime.fromisoformat(text.strip()).timestamp()
        except ValueError:
            return None
        self.dated = True if self.dated is None else self.dated
        return moment if self.dated else None

    def graphs(self) -> PackedGraphs:
        """The usable rows as graphs."""
        if not self.sets:
            row, column, value, reason = self.refused[0]
            first = f"row {row}, column '{column}': {reason} ({value!r})"
            raise OutlandError(f"no row of {self.settings.file} can be used; the first: {first}")
        graphs = self.sets.joined()
        if not self.fingerprints:
            return graphs
        return replace(graphs, extra={**graphs.extra, "cluster": cluster(self.fingerprints)})

    def findings(self) -> dict[str, Any]:
        """What a person should know of the table."""
        return {
            "rows": self.used + len(self.refused),
            "used": self.used,
            "quarantine": [list(refusal) for refusal in sorted(self.refused)],
            "duplicates": self.used - len(self.seen),
            "contradictions": len(self.contradicted),
            "fragments": self.fragments,
            "split_words": list(self.words["split"]),
        }


def _code(words: dict[str, int], word: str) -> int:
    """The number of a word, in order of first appearance."""
    return words.setdefault(word, len(words))
