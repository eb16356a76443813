"""The file in which records travel: lines of JSON under xz, a header first. It is a stranger's until it is checked."""

import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from outland.errors import OutlandError, counted
from outland.spec import RESULTS
from outland.storage.files import open_regular, write_bytes
from outland.training.record import describe_platform

FORMAT, VERSION = "outland records", 1
MAX_RUNS = 100_000
MAX_LINE = 1 << 20  # bytes; a record of 100 epochs has some 20,000
MAX_SIZE = 1 << 30  # bytes, decompressed
_MEMORY = 256 << 20  # bytes that decompression may take: xz's own presets need up to 65 MiB
_CHUNK = 1 << 20


def format_line(run: dict[str, Any]) -> str:
    """The line of a run; a `ValueError` where it is longer than any import takes."""
    line = json.dumps(run, separators=(",", ":"))
    if len(line) > MAX_LINE:
        raise ValueError(f"it has {counted(len(line), 'byte')}, and at most {MAX_LINE:,} travel")
    return line


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write the lines of runs after a header, in one piece; equal runs give equal bytes."""
    if len(lines) > MAX_RUNS:
        raise OutlandError(f"a file holds at most {counted(MAX_RUNS, 'run')}: export fewer studies at a time")
    outland = describe_platform(torch.device("cpu"))["outland"]
    header = {"format": FORMAT, "version": VERSION, "outland": outland, "results": RESULTS, "runs": len(lines)}
    text = "".join(f"{line}\n" for line in [json.dumps(header), *lines])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, lzma.compress(text.encode()))


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of the runs, once the whole file has been read and found intact: a damaged one gives none."""
    if not path.is_file():
        raise OutlandError(f"{path} is not a file of records" if path.exists() else f"there is no file {path}")
    try:
        with open_regular(path, follow=True) as stream:
            lines = _decompressed(stream)
            runs = _checked_header(next(lines, b""), path)
            count = sum(1 for _ in lines)
            if count != runs:
                raise ValueError(f"it holds {counted(count, 'run')}, not the {runs:,} that it should")
            stream.seek(0)
            lines = _decompressed(stream)
            next(lines)
            yield from lines
    except (OSError, ValueError, lzma.LZMAError, MemoryError) as problem:
        raise OutlandError(f"{path} is not an intact file of records ({problem}): copy or export it again") from None


def parse_line(line: bytes) -> Any:
    """The JSON value of a line; raises nothing but `ValueError`."""
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _checked_header(line: bytes, path: Path) -> int:
    """The number of runs that the header announces, if they can be read by this version of outland."""
    header = parse_line(line)
    if not isinstance(header, dict) or header.get("format") != FORMAT or not isinstance(header.get("runs"), int):
        raise ValueError("its first line is no header")
    if header.get("version") != VERSION:
        raise OutlandError(f"{path} was written by another version of outland, in a form that this one does not read")
    if header.get("results") != RESULTS:
        raise OutlandError(
            f"{path} holds results of version {header.get('results')!r:.20}, and this outland gives version {RESULTS}: "
            "the same settings give other numbers, so that the two cannot be mixed"
        )
    return int(header["runs"])


def _decompressed(stream: BinaryIO) -> Iterator[bytes]:
    """Lines, within the limits; never more of them in memory than one and a piece."""
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    rest, size, count = b"", 0, 0
    while not decompressor.eof:
        piece = stream.read(_CHUNK) if decompressor.needs_input else b""
        if decompressor.needs_input and not piece:
            raise ValueError("it was cut short")
        text = decompressor.decompress(piece, max_length=_CHUNK)
        *lines, rest = (rest + text).split(b"\n")
        size, count = size + len(text), count + len(lines)
        if size > MAX_SIZE or count > MAX_RUNS + 1 or max(map(len, [*lines, rest])) > MAX_LINE:
            raise ValueError("it is larger than any file of records")
        yield from lines
    if rest or decompressor.unused_data or stream.read(1):
        raise ValueError("something follows its end")


_DEPTH = 3  # of curves: `unaveraged`, part, metric


def to_columns(rows: list[dict[str, Any]]) -> list[Any]:
    """Curves as a column for each number instead of a dictionary for each epoch, with fewer digits: half the bytes.

    A column is `[path, values]`. Most numbers come from 32-bit tensors; a column of only such ones is
    `[path, values, "float32"]`, each with the digits that tell it from other 32-bit numbers. Rows of different form
    stay as they are.
    """
    flat = [dict(_leaves(row)) for row in rows]
    paths = list(flat[0]) if flat else []
    if not paths or any(list(row) != paths for row in flat) or any(len(path) > _DEPTH for path in paths):
        return rows
    return [_column(path, [row[path] for row in flat]) for path in paths]


def from_columns(columns: list[Any]) -> list[dict[str, Any]]:
    """The inverse of `to_columns`, to the bit; a `ValueError` for what it does not give."""
    if not isinstance(columns, list):
        raise ValueError("curves are not of the right kind")
    if all(isinstance(row, dict) for row in columns):
        return columns
    rows: list[dict[str, Any]] = [{} for _ in columns[0][1]]
    for path, values, *kind in columns:
        if not 0 < len(path) <= _DEPTH:
            raise ValueError("curves are nested too deeply")
        for row, value in zip(rows, values, strict=True):
            for name in path[:-1]:
                row = row.setdefault(name, {})
            is_short = bool(kind) and isinstance(value, float)
            row[path[-1]] = float(np.float32(value)) if is_short else value
    return rows


def _leaves(row: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in row.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _column(path: tuple[str, ...], values: list[Any]) -> list[Any]:
    floats = np.array([value for value in values if isinstance(value, float)])
    with np.errstate(over="ignore"):
        short = floats.astype(np.float32)
    if not len(floats) or not np.array_equal(short, floats, equal_nan=True):
        return [path, values]
    return [path, [float(str(np.float32(value))) if isinstance(value, float) else value for value in values], "float32"]
