"""A table on standard input: kept in a file while it is needed, named by what it is."""

import gzip
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outland.errors import CannotWrite

STANDARD = "-"


@contextmanager
def table_file(name: str) -> Iterator[str]:
    """The name of a table's file; for `-`, of a temporary copy of standard input."""
    if name != STANDARD:
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="outland-") as folder:
        copy = Path(folder) / "input"
        try:
            with copy.open("wb") as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream)
        except OSError as problem:
            raise CannotWrite(f"standard input cannot be kept in {folder}: {problem.strerror or problem}") from None
        yield str(copy.rename(copy.with_name(f"standard-input{_suffix(copy)}")))


def _suffix(path: Path) -> str:
    """What the name of a table must end in, by how it begins: Parquet, Excel, SDF, else CSV; gzip'd or not."""
    with path.open("rb") as stream:
        start = stream.read(1 << 16)
    if start.startswith(b"PAR1"):
        return ".parquet"
    if start.startswith(b"PK\x03\x04"):
        return ".xlsx"
    packed = start.startswith(b"\x1f\x8b")
    if packed:
        try:
            with gzip.open(path) as stream:
                start = stream.read(1 << 16)
        except (OSError, EOFError, zlib.error):
            start = b""
    kind = ".sdf" if b"M  END" in start and b",M  END" not in start else ".csv"
    return f"{kind}.gz" if packed else kind
