import gzip
from pathlib import Path

import pytest

from outland.errors import OutlandError
from outland.tables.reading import SURPLUS, column_names, read_rows, smiles_texts, unchanged
from tests.tables.cases import ROWS, load, write


def write_parquet(path: Path) -> bytes:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv(pyarrow.BufferReader(ROWS.encode())), path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.tsv.gz"])
def test_every_format_gives_the_same(tmp_path, name):
    path = tmp_path / name
    text = ROWS.replace(",", "\t") if ".tsv" in name else ROWS
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif name.endswith(".parquet"):
        write_parquet(path)
    else:
        path.write_text(text)
    splits = load(path, tmp_path)
    assert column_names(path) == ["smiles", "y"]
    assert splits.graphs.y[:, 0].tolist() == [float(n % 2) for n in range(1, 21)]
    assert splits.graphs.node_counts.tolist() == list(range(2, 22))


def test_a_parquet_file_with_a_flipped_bit_is_read_or_refused(tmp_path):
    """Also one whose integers are of a width that pyarrow does not have."""
    path, refused = tmp_path / "t.parquet", 0
    content = bytearray(write_parquet(path))
    for offset in range(len(content)):
        content[offset] ^= 0x02
        path.write_bytes(content)
        try:
            column_names(path)
        except OutlandError:
            refused += 1
        content[offset] ^= 0x02
    assert 100 < refused < len(content)


def test_byte_order_mark_and_blank_lines(tmp_path):
    path = write(tmp_path / "bom.csv", b"\xef\xbb\xbf" + ROWS.replace("\n", "\n\n").encode())
    assert load(path, tmp_path).source["rows"] == 20


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(OutlandError, match="there is no file"):
        load(tmp_path / "none.csv", tmp_path)
    with pytest.raises(OutlandError, match="its name must end in"):
        load(write(tmp_path / "t.docx", "PK"), tmp_path)
    with pytest.raises(OutlandError, match="cannot be read"):
        load(write(tmp_path / "t.csv.gz", "not gzip"), tmp_path)
    with pytest.raises(OutlandError, match="cannot be read"):
        load(write(tmp_path / "t.parquet", "not parquet"), tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ROWS.encode("utf-16"), "is in UTF-16"),
        ("smiles,löslich\nCC,1\n".encode("latin-1"), "header of .* is not in UTF-8"),
        (b"smiles,y,y\nCC,1,0\n", "two columns called 'y'"),
        (b'smiles,y\n"CC,1\nCCC,0\n', "t.csv, line"),
    ],
)
def test_broken_files_get_a_sentence(tmp_path, content, words):
    with pytest.raises(OutlandError, match=words):
        load(write(tmp_path / "t.csv", content), tmp_path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('smiles\t";,;\n0"\ty\nC\t1\t2\n', ["smiles", ";,;\n0", "y"]),
        ('smiles,"a ""x; y; z"" b",y\nC,1,2\n', ["smiles", 'a "x; y; z" b', "y"]),
        ('"a,b,c";"d,e";y\n1;2;3\n', ["a,b,c", "d,e", "y"]),
        ('5" pipe;smiles;y\n1;C;3\n', ['5" pipe', "smiles", "y"]),
    ],
)
def test_separators_in_quoted_names_are_none(tmp_path, text, names):
    (tmp_path / "t.csv").write_text(text)
    assert column_names(tmp_path / "t.csv") == names
    assert [len(row) for row in read_rows(tmp_path / "t.csv")] == [3]


def test_excel_says_its_separator(tmp_path):
    text = "sep=;\nsmiles;y\n" + "".join(f"{'C' * n};{n},5\n" for n in range(1, 15))
    splits = load(write(tmp_path / "t.csv", text), tmp_path)
    assert splits.graphs.y[:, 0].tolist() == [n + 0.5 for n in range(1, 15)]


def test_columns_without_a_name_and_cells_without_a_column(tmp_path):
    path = write(tmp_path / "t.csv", "smiles,,y\nCCO,a,1\nCCN,b,0,surplus,\nCCC,c,1,,\n")
    assert column_names(path) == ["smiles", "column 2", "y"]
    rows = list(read_rows(path))
    assert [row["column 2"] for row in rows] == ["a", "b", "c"]
    assert [row.get(SURPLUS) for row in rows] == [None, "surplus, ", None]
    assert next(read_rows(path, ["y"])) == {"y": "1"}
    texts = list(smiles_texts(path, "smiles"))
    assert [getattr(text, "reason", "") for text in texts] == [
        "",
        "more cells than columns (surplus: 'surplus, '); is a separator not quoted?",
        "",
    ]


def test_equal_columns_of_parquet_are_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table([["CC"], ["1"], ["0"]], names=["smiles", "y", "y"])
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(OutlandError, match="two columns called 'y'"):
        column_names(tmp_path / "t.parquet")


def test_smi_files_have_smiles_and_names(tmp_path):
    path = write(tmp_path / "t.smi", "CCO ethyl alcohol\n\nc1ccccc1\tbenzene\nC\n")
    assert list(read_rows(path)) == [
        {"smiles": "CCO", "name": "ethyl alcohol"},
        {"smiles": "c1ccccc1", "name": "benzene"},
        {"smiles": "C", "name": ""},
    ]
    path = write(tmp_path / "h.smi", "smiles\tname\ty\nCCO\tethyl alcohol\t1\n")
    assert list(read_rows(path)) == [{"smiles": "CCO", "name": "ethyl alcohol", "y": "1"}]


def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", ROWS)
    with pytest.raises(OutlandError, match="has changed while it was read"), unchanged(path):
        path.write_text(ROWS + "C,1\n")
    with pytest.raises(OutlandError, match="has changed while it was read"), unchanged(path, "other"):
        pass
    with unchanged(path):
        pass
