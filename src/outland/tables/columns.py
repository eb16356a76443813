"""The column of SMILES of a table: by its name where that is a usual one, else by what can be read as SMILES."""

from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path

from outland.chem.featurizer import rdkit
from outland.chem.limits import text_problem
from outland.chem.smiles import MoleculeText
from outland.errors import OutlandError, listed
from outland.tables.reading import column_names, read_rows
from outland.tables.sdf import SMILES_NAMES

_ROWS = 50  # looked at
_DOUBT = 5  # cells of which half must be SMILES, else no more are looked at
_SHORTEST = 4  # mean characters of a column's SMILES: "CO", "NO" and "C" are words as well


def find_smiles_column(path: Path, others: Collection[str | None] = (), preferred: str = "") -> str:
    """The name of the column of SMILES; a question that names the columns where it is not clear.

    Args:
        path: the table.
        others: columns that hold something else.
        preferred: the name that is expected, taken if there is such a column.
    """
    names = column_names(path)
    if preferred in names:
        return preferred
    names = [name for name in names if name not in others]
    rows = list(islice(read_rows(path), _ROWS))
    usual = [name for word in SMILES_NAMES for name in names if name.strip().lower() == word]
    for name in usual:
        if _are_smiles((row[name] for row in rows), shortest=0):
            return name
    found = [name for name in names if name not in usual and _are_smiles(row[name] for row in rows)]
    if len(found) == 1 or (usual and not found):
        return [*found, *usual][0]
    if found:
        raise OutlandError(
            f"which column of {path.name} holds the SMILES, {listed(found, 'or')}? Name it with --smiles"
        )
    raise OutlandError(
        f"no column of {path.name} can be read as SMILES: name it with --smiles COLUMN (columns: {listed(names)})"
    )


def _are_smiles(cells: Iterable[str], shortest: int = _SHORTEST) -> bool:
    """Whether nine of ten cells that are not empty can be read (half, where any length will do), and are no words."""
    known = good = length = 0
    for cell in cells:
        text = cell.strip()
        if not text:
            continue
        known += 1
        good += _is_smiles(cell)
        length += len(text)
        if known == _DOUBT and good < _DOUBT / 2:
            return False
    return known > 0 and good >= (0.9 if shortest else 0.5) * known and length >= shortest * known


def _is_smiles(cell: str) -> bool:
    if isinstance(cell, MoleculeText):
        return not cell.reason
    text = cell.strip()
    if text.replace(".", "", 1).isdecimal() or any("\ud800" <= letter <= "\udfff" for letter in text):
        return False
    return not text_problem(text) and rdkit().MolFromSmiles(text, sanitize=False) is not None
