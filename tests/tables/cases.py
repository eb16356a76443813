"""Small tables of SMILES, and the splits of one."""

from pathlib import Path
from typing import Any

from outland.graphs import Cache, Splits
from outland.tables import TableSettings
from outland.tables.smiles_table import SmilesTable

ROWS = "smiles,y\n" + "".join(f"{'C' * n}O,{n % 2}\n" for n in range(1, 21))


def load(path: Path, tmp_path: Path, domain: str = "random", **settings: Any) -> Splits:
    table = SmilesTable(TableSettings(str(path), **{"target": "y", **settings}))
    return table.load(domain, "covariate", cache=Cache(tmp_path / "cache"))


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path
