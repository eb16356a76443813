"""Which format a table has, by the end of its name; and limits that hold in all of them."""

from pathlib import Path
from typing import Literal

from outland.errors import OutlandError

Format = Literal["delimited", "parquet", "sdf", "smi", "excel"]
_SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), "delimited"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".sdf", ".sd"), "sdf"),
    ".smi": "smi",
    ".xlsx": "excel",
}
SUFFIXES = tuple(_SUFFIXES)
MAX_CELL = 1_000_000  # characters of a cell
MAX_RECORD = 16_000_000  # characters of a row
MAX_COLUMNS = 20_000
MAX_BLANK = 1_000_000  # lines one after another


def table_format(path: Path) -> Format:
    """The format of a table; refuse a name that ends otherwise."""
    if (suffix := _suffix(path)) not in _SUFFIXES:
        raise OutlandError(f"{path} is no table outland knows: its name must end in {', '.join(SUFFIXES)} or .gz")
    return _SUFFIXES[suffix]


def is_gzipped(path: Path) -> bool:
    """Whether the name says that the file is gzip'd."""
    return path.suffix.lower() == ".gz"


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if is_gzipped(path) else path).suffix.lower()


def check_names(path: Path, names: list[str]) -> list[str]:
    """The names of columns, those without a name called by their place; refuse two of one name, and too many."""
    if len(names) > MAX_COLUMNS:
        raise OutlandError(f"{path} has {len(names):,} columns; at most {MAX_COLUMNS:,} are taken: leave some out")
    taken = set[str]()
    for name in names:
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise OutlandError(f"the header of {path} is not in UTF-8: save the table as UTF-8")
        if name and name in taken:
            raise OutlandError(f"{path} has two columns called '{name[:80]}': rename one")
        taken.add(name)
    return [name or _by_place(place, taken) for place, name in enumerate(names, 1)]


def _by_place(place: int, taken: set[str]) -> str:
    name = f"column {place}"
    while name in taken:
        name += "'"
    return name
