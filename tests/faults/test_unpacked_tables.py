"""Small tables that say they are large, or are: types that repeat a text, blank lines, cells far from the others."""

import gzip
import re
import zipfile
from pathlib import Path

import pytest

from outland.errors import OutlandError
from outland.tables import parquet
from outland.tables.reading import read_rows
from tests.faults.test_bounded_tables import in_a_gigabyte, read_all

pytestmark = pytest.mark.faults
TEXTS = ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"]
ROWS, LONG = 50, 900_000


def repeated(path: Path, kind: str) -> Path:
    """A Parquet file of fifty rows that holds one long text."""
    import pyarrow
    import pyarrow.parquet

    plain = b"C" * LONG if "binary" in kind else "C" * LONG
    width = pyarrow.binary(LONG) if kind == "binary[]" else getattr(pyarrow, kind, pyarrow.string)()
    texts = pyarrow.array([plain] * ROWS, pyarrow.string() if kind == "json_" else width)
    if kind == "json_":
        texts = pyarrow.ExtensionArray.from_storage(width, texts)
    pyarrow.parquet.write_table(pyarrow.table({"smiles": texts}), path, compression="zstd")
    return path


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_of_any_type_is_not_repeated_in_memory(kind, tmp_path, tally):
    path = repeated(tmp_path / "t.parquet", kind)
    assert path.stat().st_size < 20_000
    with parquet._opened(path) as table:
        assert sum(batch.nbytes for batch in table.iter_batches(ROWS)) < 2 * LONG
    assert [len(row["smiles"]) for row in read_rows(path)] == [LONG] * ROWS
    tally("inputs", "tables that unpack")


@pytest.mark.parametrize("kind", ["binary[]", "json_"])
def test_a_type_that_can_only_be_read_whole_is_refused(kind, tmp_path, tally):
    with pytest.raises(OutlandError, match=r"a cell of column 'smiles' holds .*: leave it out"):
        read_all(repeated(tmp_path / "t.parquet", kind))
    tally("inputs", "tables that unpack")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.smi.gz", "t.tsv"])
def test_blank_lines_without_end(name, tmp_path, tally):
    """A thousandth of their size when they are packed; some may stand between rows, more than a million may not."""
    few, many = (b"smiles\nCCO\n" + blank * b"\n" + b"CCN\n" for blank in (100_000, 1_100_000))
    path, pack = tmp_path / name, gzip.compress if name.endswith(".gz") else bytes
    path.write_bytes(pack(few))
    assert [row["smiles"] for row in read_rows(path)] == ["CCO", "CCN"]
    path.write_bytes(pack(many))
    with pytest.raises(OutlandError, match="line 1000003: more than 1,000,000 blank lines"):
        read_all(path)
    tally("inputs", "tables that unpack")


def sheet(path: Path, size: str, cells: dict[str, str]) -> Path:
    """A workbook that says it has `size`, and has these cells, each in a row of its own."""
    import openpyxl

    rows = "".join(
        f'<row r="{re.sub("[A-Z]", "", place)}"><c r="{place}" t="inlineStr"><is><t>{text}</t></is></c></row>'
        for place, text in cells.items()
    )
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    plain = parts["xl/worksheets/sheet1.xml"]
    plain, filled = re.subn("<sheetData ?/>|<sheetData></sheetData>", f"<sheetData>{rows}</sheetData>", plain)
    plain, sized = re.subn('<dimension ref="[A-Z0-9:]*"', f'<dimension ref="{size}"', plain)
    assert (filled, sized) == (1, 1)
    parts["xl/worksheets/sheet1.xml"] = plain
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("size", ["A1:A2", "A1:XFD1048576"])
def test_a_workbook_that_lies_about_its_size_is_read_whole(size, tmp_path, tally):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed: Excel cannot be tested")
    path = sheet(tmp_path / "t.xlsx", size, {"A1": "smiles", "A2": "CCO", "A9": "CCN"})
    assert [row["smiles"] for row in read_rows(path)] == ["CCO", "CCN"]
    tally("inputs", "tables that unpack")


FAR = {"a row": {"A1000000000000": "CCO"}, "columns": {f"XFD{number}": "x" for number in range(2, 1500)}}


@pytest.mark.parametrize("kind", FAR)
def test_a_workbook_with_cells_far_from_the_others(kind, tmp_path, tally):
    """Nobody waits for billions that are blank."""
    pytest.importorskip("openpyxl", reason="openpyxl is not installed: Excel cannot be tested")
    path = sheet(tmp_path / "t.xlsx", "A1:XFD1048576", {"A1": "smiles"} | FAR[kind])
    in_a_gigabyte(read_all, path)
    with pytest.raises(OutlandError, match="has rows or columns too far from the others: save the sheet as CSV"):
        read_all(path)
    tally("inputs", "tables that unpack")
