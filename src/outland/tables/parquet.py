"""Parquet, batch by batch; texts that the file holds once and repeats are not repeated in memory."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outland.errors import OutlandError
from outland.tables.formats import MAX_CELL

_BATCH = 4096  # rows
_MAX_BYTES = 1 << 26  # of text that is made of a batch at once
_TEXTS = {"string", "binary", "large_string", "large_binary", "string_view", "binary_view"}
_MAX_CHUNK = 1 << 30  # bytes of a column in a row group, unpacked
_SMALL = _MAX_CHUNK >> 15  # bytes of a file: zstd makes no text shorter than by that much
_PATIENCE = 60  # seconds until a process that is asked for sizes has answered
_SIZES = """
import json, sys
from pyarrow.parquet import read_metadata
with open(sys.argv[1], "rb") as stream:
    metadata, sizes = read_metadata(stream), {}
for group in map(metadata.row_group, range(metadata.num_row_groups)):
    for chunk in map(group.column, range(group.num_columns if group.num_rows else 0)):
        size, packed = chunk.total_uncompressed_size, chunk.total_compressed_size
        least, most = sizes.get(chunk.path_in_schema, (size, size))
        sizes[chunk.path_in_schema] = min(least, size), max(most, size, packed)
print(json.dumps(sizes))
"""


def header(path: Path) -> list[str]:
    """The names of the columns."""
    with _opened(path) as table:
        return list(table.schema_arrow.names)


def rows(path: Path, columns: list[str] | None = None) -> Iterator[list[str]]:
    """The cells of each row; of these columns only, where they are named."""
    with _opened(path) as table:
        names = list(table.schema_arrow.names) if columns is None else columns
        _check(path, table, set(names))
        for batch in table.iter_batches(_BATCH, columns=names):
            yield from _cells(path, batch.select(names))


def _cells(path: Path, batch: Any) -> Iterator[list[str]]:
    """The rows of a batch as texts, a part of them at a time where cells are long."""
    if (
        len(batch) > 1
        and sum(_size(path, column, batch.schema.names[i]) for i, column in enumerate(batch)) > _MAX_BYTES
    ):
        half = len(batch) // 2
        yield from _cells(path, batch.slice(0, half))
        yield from _cells(path, batch.slice(half))
        return
    columns = [["" if value is None else _text(value) for value in column.to_pylist()] for column in batch]
    yield from (list(row) for row in zip(*columns, strict=True))


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _size(path: Path, column: Any, name: str) -> int:
    """Bytes of a column's texts; refuse one with a cell that is too long."""
    import pyarrow.compute as compute

    if not hasattr(column, "dictionary"):
        return int(column.nbytes)
    lengths = compute.take(compute.binary_length(column.dictionary), column.indices)
    if (compute.max(lengths).as_py() or 0) > 4 * MAX_CELL:
        raise OutlandError(f"{path}: a cell of column '{name}' has more than {MAX_CELL:,} characters")
    return compute.sum(lengths).as_py() or 0


def _check(path: Path, table: Any, names: set[str]) -> None:
    """Refuse cells of several values or of long ones that are read whole, and columns that would fill the memory."""
    for field in table.schema_arrow:
        if field.name in names and _is_odd(field.type):
            raise OutlandError(
                f"{path}: a cell of column '{field.name}' holds {field.type}, not one value: leave it out"
            )
    if path.stat().st_size <= _SMALL and _has_sizes(table.metadata):
        return
    for name, (least, most) in _chunk_sizes(path).items():
        if name in names and least <= 0:
            raise _unfit(path)
        if name in names and most > _MAX_CHUNK:
            raise OutlandError(
                f"{path}: column '{name}' takes {most:,} bytes in one row group: write the table with smaller ones"
            )


def _is_odd(kind: Any) -> bool:
    """Whether cells of this type have several values, or may be long and are not kept once; a UUID is none of these."""
    import pyarrow
    import pyarrow.types as types

    if isinstance(kind, pyarrow.BaseExtensionType):
        storage = kind.storage_type
        return str(storage) in _TEXTS or types.is_dictionary(storage) or _is_odd(storage)
    is_long = types.is_fixed_size_binary(kind) and kind.byte_width > _MAX_BYTES // _BATCH
    return bool(is_long or types.is_nested(kind))


def _has_sizes(metadata: Any) -> bool:
    """Whether each row group has a size, and one that is allowed."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return all(0 < group.total_byte_size <= _MAX_CHUNK or group.num_rows == 0 for group in groups)


def _chunk_sizes(path: Path) -> dict[str, tuple[int, int]]:
    """Bytes of each column in its smallest and its largest row group.

    A process of its own reads them, which pyarrow may end if they lie, and imports nothing from the current folder.
    """
    words = [sys.executable, "-P", "-c", _SIZES, os.fspath(path)]
    asked = f"{path} cannot be read: another process was asked for the sizes of its columns, and"
    try:
        child = subprocess.run(words, capture_output=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise OutlandError(f"{asked} did not answer within {_PATIENCE} seconds") from None
    if child.returncode < 0:
        raise _unfit(path)
    if child.returncode:
        reason = child.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise OutlandError(f"{asked} ended with status {child.returncode}: {reason[:200]}")
    return {name: (least, most) for name, (least, most) in json.loads(child.stdout).items()}


def _unfit(path: Path) -> OutlandError:
    return OutlandError(f"{path} cannot be read: what it says about its columns does not fit together")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The `ParquetFile`; an error of pyarrow's inside the block is a sentence."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OutlandError("Parquet tables need pyarrow: pip install 'outland[molecules]'") from None
    try:
        with pyarrow.OSFile(os.fsencode(path)) as file:  # by its bytes: a name need not be UTF-8
            with pyarrow.parquet.ParquetFile(file) as table:
                schema = table.schema_arrow
            texts = [field.name for field in schema if str(field.type) in _TEXTS]
            with pyarrow.parquet.ParquetFile(file, read_dictionary=texts) as table:
                yield table
    except (OSError, ValueError, OverflowError, IndexError, KeyError, pyarrow.ArrowException) as problem:
        raise OutlandError(f"{path} cannot be read: {str(problem)[:200]}") from None
