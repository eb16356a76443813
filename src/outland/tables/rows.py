"""The usable rows of a user's table as packed graphs; the others go to quarantine."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch

from outland.chem.packing import cluster, pack_molecules
from outland.chem.smiles import Chunk, has_invalid_utf8
from outland.errors import OutlandError
from outland.graphs import PackedGraphs, Splits
from outland.graphs.shards import Shards
from outland.storage.files import write_text
from outland.tables.cells import parse_number
from outland.tables.duplicates import text_hash
from outland.tables.labels import LabelReader
from outland.tables.reading import Cells
from outland.tables.settings import TableSettings

# Of a row: its number, a hash of its SMILES, and codes of environment, split, scaffold, molecule; its time.
Values = dict[str, float]
_MAX_VALUE = 80  # characters of a value in quarantine


class QuarantinedRow(NamedTuple):
    """A row that cannot be used; rows count from 1."""

    row: int
    column: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"row {self.row}, column '{self.column}': {self.reason} ({self.value!r})"


class RowCollector:
    """Collects a table's rows chunk by chunk: the usable ones as graphs, the others in quarantine."""

    def __init__(self, settings: TableSettings, labels: LabelReader) -> None:
        self.settings, self.labels = settings, labels
        self.quarantine: list[QuarantinedRow] = []
        self._shards = Shards()
        # Codes of names, in order of first appearance.
        self._codes = {name: defaultdict[str, int](count().__next__) for name in ("environment", "split", "scaffold")}
        self._has_dates: bool | None = None  # whether times are dates; the first row decides
        self._fingerprints: list[bytes] = []
        self._molecules: dict[bytes, tuple[int, str]] = {}  # code and first label, by hash of the canonical SMILES
        self._contradictions: set[bytes] = set()
        self._used = self._fragments = 0

    def add(self, chunk: Chunk, rows: Iterator[Cells]) -> None:
        """Take the molecules of a chunk with as many of `rows`, from which they were read."""
        failures = dict(chunk.failures)
        positions = {index: position for position, index in enumerate(chunk.indices)}
        usable: list[tuple[int, list[float], Values]] = []
        for index in sorted([*failures, *positions]):
            cells = next(rows)
            if index in failures:
                smiles = self.settings.smiles
                self._refuse(index + 1, smiles, cells.get(smiles, ""), failures[index])
                continue
            labels_and_values = self._read(index + 1, cells)
            if labels_and_values is not None:
                usable.append((positions[index], *labels_and_values))
        if usable:
            self._pack(chunk, usable)

    def _pack(self, chunk: Chunk, usable: list[tuple[int, list[float], Values]]) -> None:
        """Pack the usable molecules of a chunk at once: packed, they take a tenth of the memory."""
        for position, labels, values in usable:
            values["scaffold"] = self._codes["scaffold"][chunk.scaffolds[position]]
            values["molecule"] = self._count(chunk.canonical[position], labels)
            if chunk.fingerprints:
                self._fingerprints.append(chunk.fingerprints[position])
        y = torch.tensor([labels for _, labels, _ in usable])
        if self.labels.task.kind == "multiclass":
            y = y.squeeze(1).long()
        columns = {
            name: torch.tensor(
                [values[name] for _, _, values in usable], dtype=torch.double if name == "time" else torch.long
            )
            for name in usable[0][2]
        }
        environment = columns.pop("environment", None)
        molecules = [chunk.molecules[position] for position, _, _ in usable]
        self._shards.add(pack_molecules(molecules, y, extra=columns, environment=environment))
        self._used += len(usable)

    def _count(self, canonical: str, labels: list[float]) -> int:
        """The molecule's code, which rows of the same molecule share; count duplicates and contradictions."""
        key, text = blake2b(canonical.encode(), digest_size=10).digest(), str(labels)
        code, first = self._molecules.setdefault(key, (len(self._molecules), text))
        if first != text:
            self._contradictions.add(key)
        self._fragments += "." in canonical
        return code

    def _refuse(self, row: int, column: str, value: str, reason: str) -> None:
        """Put a row in quarantine, with its value shortened, and bytes that are not UTF-8 escaped."""
        value = value.encode("utf-8", "backslashreplace").decode()
        value = value if len(value) <= _MAX_VALUE else value[: _MAX_VALUE - 3] + "..."
        self.quarantine.append(QuarantinedRow(row, column, value, reason))

    def _read(self, row: int, cells: Cells) -> tuple[list[float], Values] | None:
        """Labels and other values of a row; None for a row that goes to quarantine."""
        settings = self.settings
        for name in (*settings.targets, settings.environment, settings.split, settings.time):
            if name and has_invalid_utf8(cells.get(name, "")):
                self._refuse(row, name, cells[name], "bytes that are not UTF-8")
                return None
        labels, problem = self.labels.read(cells)
        if problem is not None:
            self._refuse(row, *problem)
            return None
        values: Values = {"row": row, "hash": text_hash(cells.get(settings.smiles, ""))}
        for name in ("environment", "split"):
            column = getattr(settings, name)
            if column and not cells.get(column, "").strip():
                self._refuse(row, column, "", f"no {name}")
                return None
            if column:
                values[name] = self._codes[name][cells[column].strip()]
        if settings.time:
            time = self._read_time(cells.get(settings.time, ""))
            if time is None:
                reason = "not a date, as others are" if self._has_dates else "neither number nor date, as others are"
                self._refuse(row, settings.time, cells.get(settings.time, ""), reason)
                return None
            values["time"] = time
        return labels, values

    def _read_time(self, text: str) -> float | None:
        """A number, or the timestamp of a date written year first; a column holds one or the other."""
        value = parse_number(text)
        is_date = value is None
        try:
            value = datetime.fromisoformat(text.strip()).timestamp() if value is None else value
        except ValueError:
            return None
        self._has_dates = is_date if self._has_dates is None else self._has_dates
        return value if is_date == self._has_dates else None

    def graphs(self) -> PackedGraphs:
        """The usable rows as graphs; their other values are in `extra`."""
        if not self._shards:
            raise OutlandError(f"no row of {self.settings.file} can be used; the first: {self.quarantine[0]}")
        graphs = self._shards.concatenate()
        clusters = {"cluster": cluster(self._fingerprints)} if self._fingerprints else {}
        return replace(graphs, extra={**graphs.extra, **clusters})

    def summary(self) -> dict[str, Any]:
        """Counts of rows, duplicates and contradictions, and the quarantine, as plain values."""
        return {
            "rows": self._used + len(self.quarantine),
            "used": self._used,
            "quarantine": [list(row) for row in sorted(self.quarantine)],
            "duplicates": self._used - len(self._molecules),
            "contradictions": len(self._contradictions),
            "fragments": self._fragments,
            "split_words": list(self._codes["split"]),
        }


def write_quarantine(splits: Splits, path: Path) -> Path | None:
    """Write the quarantined rows of a table's splits as CSV, if there are any; return the file.

    A file of that name that is not such a list stays, and the list gets a number after its name.
    """
    rows = splits.source.get("quarantine", [])
    if not rows:
        return None
    text = io.StringIO()
    csv.writer(text).writerows([QuarantinedRow._fields, *rows])
    names = (path if number < 2 else path.with_stem(f"{path.stem}-{number}") for number in count(1))
    path = next(name for name in names if _is_ours(name))
    write_text(path, text.getvalue())
    return path


def _is_ours(path: Path) -> bool:
    """Whether there is no such file, or one that begins as a list of quarantined rows does."""
    header = (",".join(QuarantinedRow._fields) + "\r\n").encode()
    if not path.is_symlink() and not path.exists():
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(header)) == header
