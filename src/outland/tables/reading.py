"""Rows of a table on disk, one at a time, in any format: CSV, TSV, Parquet, SDF, .smi or Excel."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outland.chem.limits import MAX_LENGTH
from outland.chem.smiles import MoleculeText
from outland.errors import OutlandError, unknown
from outland.storage.files import checksum
from outland.tables import delimited, excel, parquet, sdf
from outland.tables.formats import check_names, table_format

Cells = dict[str, str]  # the texts of a row, by column
SURPLUS = ""  # the column of cells beyond the last one that has a name, joined


def column_names(path: Path) -> list[str]:
    """The names of the table's columns; refuse a file that is no table."""
    if not path.exists():
        raise OutlandError(f"there is no file {path}")
    if not path.is_file():
        raise OutlandError(f"{path} is no file")
    if path.stat().st_size == 0:
        raise OutlandError(f"{path} is empty")
    kind = table_format(path)
    if kind == "parquet":
        names = parquet.header(path)
    elif kind == "sdf":
        names = sdf.sdf_header(path)
    elif kind == "smi":
        names = sdf.smi_header(path)
    else:
        names = next(excel.records(path) if kind == "excel" else delimited.records(path), [])
    if not any(names):
        raise OutlandError(f"{path} has no header line")
    if names[0][:2] in ("\udcff\udcfe", "\udcfe\udcff"):
        raise OutlandError(f"{path} is in UTF-16: save it as UTF-8")
    return check_names(path, names)


def read_rows(path: Path, columns: list[str] | None = None) -> Iterator[Cells]:
    """Yield the table's rows in order, of these columns where they are named; blank lines are skipped.

    Missing cells are empty. Cells beyond the last column are joined under the name `SURPLUS`.
    """
    names = column_names(path)
    wanted = range(len(names)) if columns is None else [names.index(name) for name in columns if name in names]
    for record in _records(path, names, [names[place] for place in wanted]):
        cells = {names[place]: record[place] if place < len(record) else "" for place in wanted}
        if len(record) > len(names) and any(record[len(names) :]):
            cells[SURPLUS] = ", ".join(record[len(names) :])
        yield cells


def _records(path: Path, names: list[str], wanted: list[str]) -> Iterator[list[str]]:
    kind = table_format(path)
    if kind == "parquet":
        places = {name: place for place, name in enumerate(wanted)}
        for cells in parquet.rows(path, None if wanted == names else wanted):
            yield cells if wanted == names else [cells[places[name]] if name in places else "" for name in names]
    elif kind == "sdf":
        yield from sdf.sdf_rows(path, names)
    elif kind == "smi":
        yield from sdf.smi_rows(path, names)
    else:
        records = excel.records(path) if kind == "excel" else delimited.records(path)
        next(records, None)
        yield from records


def smiles_texts(path: Path, column: str) -> Iterator[str]:
    """The SMILES of each row; that of a row that cannot be used is cut short, with the reason."""
    for row in read_rows(path, [column]):
        yield smiles_text(row, column)


def smiles_text(row: Cells, column: str) -> str:
    """The SMILES of a row; cut short, with the reason, where the row cannot be used."""
    text = row.get(column, "")
    if (surplus := row.get(SURPLUS)) is not None:
        reason = f"more cells than columns (surplus: {surplus[:40]!r}); is a separator not quoted?"
        return MoleculeText(text[:80], reason)
    if len(text) > MAX_LENGTH:
        reason = f"a SMILES of {len(text)} characters; the longest taken is {MAX_LENGTH}"
        return MoleculeText(text[:80], reason)
    return text


@contextmanager
def unchanged(path: Path, sha256: str | None = None) -> Iterator[None]:
    """Refuse what was read inside the block if the file has changed meanwhile, or is not the one of this checksum."""
    before = _state(path)
    yield
    if _state(path) != before or (sha256 is not None and checksum(path) != sha256):
        raise OutlandError(f"{path} has changed while it was read: begin again with the new one")


def _state(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as problem:
        raise OutlandError(f"{path} cannot be read: {problem.strerror or problem}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def has_decimal_comma(path: Path) -> bool:
    """Whether a comma inside a cell can only be a decimal one: the cells are separated by something else."""
    if table_format(path) != "delimited":
        return False
    with delimited.open_text(path) as stream:
        return delimited.find_separator(path, stream) != ","


def require_columns(path: Path, names: list[str], hint: str = "") -> None:
    """Refuse a table that lacks one of these columns, with a hint, or has no rows."""
    present = column_names(path)
    for name in names:
        if name not in present:
            raise OutlandError(f"{unknown(f'column of {path.name}', name, present, most=10)}{hint}")
    if next(read_rows(path), None) is None:
        raise OutlandError(f"{path} has a header and no rows")


def require_smiles_column(path: Path, name: str) -> None:
    """Refuse a table without the column of SMILES, saying how to name another."""
    require_columns(path, [name], "; name its SMILES with --smiles COLUMN")
