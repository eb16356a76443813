"""Rows of a table on disk, one at a time: CSV or TSV, gzip'd or not, or Parquet."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from outland.errors import OutlandError, unknown

Cells = dict[str, str]  # the texts of a row, by column
_MAX_CELL = 10_000_000  # characters
_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq")


def read_rows(path: Path) -> Iterator[Cells]:
    """Yield the table's rows in order; blank lines are skipped, missing cells are empty."""
    csv.field_size_limit(_MAX_CELL)
    if _is_parquet(path):
        with _open_parquet(path) as table:
            for row in chain.from_iterable(batch.to_pylist() for batch in table.iter_batches(4096)):
                yield {name: "" if value is None else str(value) for name, value in row.items()}
        return
    try:
        with _open(path) as stream:
            reader = csv.DictReader(stream, delimiter=_delimiter(stream), restval="", restkey="", strict=True)
            for row in reader:
                yield {name: value for name, value in row.items() if name}
    except csv.Error as problem:
        raise OutlandError(f"{path}, line {reader.line_num}: {problem}") from None
    except (OSError, EOFError, zlib.error) as problem:
        raise OutlandError(f"{path} cannot be read: {problem}") from None


def column_names(path: Path) -> list[str]:
    """The names of the table's columns; refuse a file that is no table."""
    if not path.exists():
        raise OutlandError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise OutlandError(f"{path} is empty")
    if _is_parquet(path):
        with _open_parquet(path) as table:
            return list(table.schema_arrow.names)
    try:
        with _open(path) as stream:
            names = csv.DictReader(stream, delimiter=_delimiter(stream)).fieldnames
    except (OSError, EOFError, ValueError, zlib.error, csv.Error) as problem:
        raise OutlandError(f"{path} cannot be read: {problem}") from None
    if not names:
        raise OutlandError(f"{path} has no header line")
    if names[0][:2] in ("\udcff\udcfe", "\udcfe\udcff"):
        raise OutlandError(f"{path} is in UTF-16: save it as UTF-8")
    for name in names:
        if any("\udc80" <= character <= "\udcff" for character in name):
            raise OutlandError(f"the header of {path} is not in UTF-8: save the table as UTF-8")
        if name and names.count(name) > 1:
            raise OutlandError(f"{path} has two columns called '{name}'")
    return [name for name in names if name]


def has_decimal_comma(path: Path) -> bool:
    """Whether a comma inside a cell can only be a decimal one: the cells are separated by something else."""
    if _is_parquet(path):
        return False
    with _open(path) as stream:
        return _delimiter(stream) != ","


def require_columns(path: Path, names: list[str], hint: str = "") -> None:
    """Refuse a table that lacks one of these columns, with a hint, or has no rows."""
    present = column_names(path)
    for name in names:
        if name not in present:
            raise OutlandError(f"{unknown(f'column of {path.name}', name, present)}{hint}")
    if next(read_rows(path), None) is None:
        raise OutlandError(f"{path} has a header and no rows")


def require_smiles_column(path: Path, name: str) -> None:
    """Refuse a table without the column of SMILES, saying how to name another."""
    require_columns(path, [name], "; name its SMILES with --smiles COLUMN")


def _is_parquet(path: Path) -> bool:
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise OutlandError(
            f"{path} is not a table outland can read: its name must end in {', '.join(_SUFFIXES)} or .gz"
        )
    return suffix in (".parquet", ".pq")


def _open(path: Path) -> IO[str]:
    # Bytes that are not UTF-8 come through as surrogates, so that the row they are in can be named.
    text: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    return cast(IO[str], gzip.open(path, "rt", **text)) if path.suffix.lower() == ".gz" else path.open(**text)


def _delimiter(stream: IO[str]) -> str:
    """The separator of cells: what Excel's line `sep=` says, else the commonest of `,`, `;` and tab in the header.

    The stream is left at the header.
    """
    start = stream.readline()
    if excel := re.fullmatch(r"sep=(.)\s*", start):
        return excel.group(1)
    stream.seek(0)
    return max(",;\t", key=start.count)


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """The `ParquetFile`; an error of pyarrow's inside the block is a sentence."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OutlandError("Parquet tables need pyarrow: pip install 'outland[molecules]'") from None
    try:
        yield pyarrow.parquet.ParquetFile(path)
    except (OSError, ValueError, pyarrow.ArrowException) as problem:
        raise OutlandError(f"{path} cannot be read: {problem}") from None
