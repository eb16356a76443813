"""CSV and TSV: rows of cells between separators, a line or more each, read without ever holding more than one."""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from outland.errors import OutlandError
from outland.tables.formats import MAX_BLANK, MAX_CELL, MAX_RECORD, is_gzipped

_QUOTED = re.compile(r'(?:^|(?<=[,;\t]))"(?:[^"]|"")*(?:"|$)')  # names in quotes, which may hold separators
TEXT: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}


def records(path: Path) -> Iterator[list[str]]:
    """The header, then the rows; blank lines are skipped."""
    csv.field_size_limit(MAX_CELL)
    with open_text(path) as stream:
        separator = find_separator(path, stream)
        lines = Lines(path, stream)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        try:
            for record in reader:
                lines.begin()
                if record:
                    yield record
        except csv.Error as problem:
            raise OutlandError(f"{path}, line {reader.line_num}: {problem}") from None


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """The file as text, unpacked where it is gzip'd; an error inside the block is a sentence.

    Bytes that are not UTF-8 come through as surrogates, so that the row they are in can be named.
    """
    try:
        with cast(IO[str], gzip.open(path, "rt", **TEXT) if is_gzipped(path) else path.open(**TEXT)) as stream:
            yield stream
    except (OSError, EOFError, zlib.error, UnicodeError) as problem:
        raise OutlandError(f"{path} cannot be read: {problem}") from None


class Lines:
    """The lines of a stream; refuses a line, or lines of one row, of more characters than a row may have.

    So are blank lines without end: a few kilobytes can unpack to as many as take hours.
    """

    def __init__(self, path: Path, stream: IO[str]) -> None:
        self.path, self.stream, self.characters, self.number, self.blank = path, stream, 0, 0, 0

    def begin(self) -> None:
        """The next line begins a row."""
        self.characters = 0

    def __iter__(self) -> Iterator[str]:
        while line := bounded_line(self.path, self.stream, self.number + 1):
            self.number += 1
            self.characters += len(line)
            if self.characters > MAX_RECORD:
                raise OutlandError(
                    f"{self.path}, line {self.number}: a row of more than {MAX_RECORD:,} characters; "
                    "is a quotation mark left open?"
                )
            self.blank = self.blank + 1 if line.isspace() else 0
            if self.blank > MAX_BLANK:
                raise OutlandError(f"{self.path}, line {self.number}: more than {MAX_BLANK:,} blank lines")
            yield line


def bounded_line(path: Path, stream: IO[str], number: int = 1) -> str:
    """The next line of a stream; refuse one of more characters than a row may have."""
    line = stream.readline(MAX_RECORD + 1)
    if len(line) > MAX_RECORD:
        raise OutlandError(f"{path}, line {number}: more than {MAX_RECORD:,} characters in one line")
    return line


def find_separator(path: Path, stream: IO[str]) -> str:
    """The separator of cells: what Excel's line `sep=` says, else the commonest of `,`, `;` and tab between names.

    The stream is left at the header.
    """
    start = bounded_line(path, stream)
    if excel := re.fullmatch(r"sep=(.)\s*", start):
        return excel.group(1)
    stream.seek(0)
    return max(",;\t", key=_QUOTED.sub("", start).count)
