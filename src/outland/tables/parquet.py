"""Parquet, batch by batch; texts that the file holds once and repeats are not repeated in memory."""

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
    import pyarrow.types as types

    for field in table.schema_arrow:
        is_long = types.is_fixed_size_binary(field.type) and field.type.byte_width > _MAX_BYTES // _BATCH
        is_odd = is_long or types.is_nested(field.type) or str(field.type).startswith("extension")
        if field.name in names and is_odd:
            raise OutlandError(
                f"{path}: a cell of column '{field.name}' holds {field.type}, not one value: leave it out"
            )
    metadata = table.metadata
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            if chunk.path_in_schema in names and chunk.total_uncompressed_size > _MAX_CHUNK:
                raise OutlandError(
                    f"{path}: column '{chunk.path_in_schema}' takes {chunk.total_uncompressed_size:,} bytes in one row "
                    "group: write the table with smaller row groups"
                )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The `ParquetFile`; an error of pyarrow's inside the block is a sentence."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OutlandError("Parquet tables need pyarrow: pip install 'outland[molecules]'") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            schema = table.schema_arrow
        texts = [field.name for field in schema if str(field.type) in _TEXTS]
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as table:
            yield table
    except (OSError, ValueError, OverflowError, IndexError, KeyError, pyarrow.ArrowException) as problem:
        raise OutlandError(f"{path} cannot be read: {str(problem)[:200]}") from None
