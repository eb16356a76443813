"""Rows of a table that cannot be used, each with column, value and reason."""

import csv
import io
from pathlib import Path
from typing import NamedTuple

from outland.graphs import Splits
from outland.storage.files import write_text

_MAX_VALUE = 80  # characters of a value that are kept


class QuarantinedRow(NamedTuple):
    """A row that cannot be used; rows count from 1."""

    row: int
    column: str
    value: str
    reason: str

    @classmethod
    def make(cls, row: int, column: str, value: str, reason: str) -> "QuarantinedRow":
        """A row with its value shortened, and bytes that are not UTF-8 escaped."""
        value = value.encode("utf-8", "backslashreplace").decode()
        return cls(row, column, value if len(value) <= _MAX_VALUE else value[: _MAX_VALUE - 3] + "...", reason)

    def __str__(self) -> str:
        return f"row {self.row}, column '{self.column}': {self.reason} ({self.value!r})"


def write_quarantine(splits: Splits, path: Path) -> int:
    """Write the quarantined rows of a table's splits as CSV, if there are any; return their number."""
    rows = splits.source.get("quarantine", [])
    if rows:
        text = io.StringIO()
        csv.writer(text).writerows([QuarantinedRow._fields, *rows])
        write_text(path, text.getvalue())
    return len(rows)
