import gzip
import io
import sys
from pathlib import Path

import pytest

from outland.tables.reading import column_names, read_rows
from outland.tables.streams import table_file
from tests.tables.cases import ROWS


class Input:
    """Standard input with these bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def sdf() -> bytes:
    from outland.chem.featurizer import rdkit

    return f"{rdkit().MolToMolBlock(rdkit().MolFromSmiles('CCO'))}>  <y>\n1\n\n$$$$\n".encode()


@pytest.mark.parametrize("kind", [".csv", ".csv.gz", ".sdf", ".parquet"])
def test_standard_input_is_any_table(monkeypatch, tmp_path, kind):
    content = sdf() if kind == ".sdf" else ROWS.encode()
    if kind == ".parquet":
        import pyarrow.csv
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.csv.read_csv(io.BytesIO(content)), tmp_path / "t.parquet")
        content = (tmp_path / "t.parquet").read_bytes()
    monkeypatch.setattr(sys, "stdin", Input(gzip.compress(content) if kind == ".csv.gz" else content))
    with table_file("-") as name:
        assert name.endswith(f"standard-input{kind}")
        assert {"smiles", "y"} <= set(column_names(Path(name)))
        assert len(list(read_rows(Path(name)))) == (1 if kind == ".sdf" else 20)
    assert not Path(name).exists()
    with table_file("t.csv") as name:
        assert name == "t.csv"
