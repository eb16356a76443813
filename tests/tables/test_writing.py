"""What is written can be read again, in every format."""

import pytest

from outland.chem.featurizer import rdkit
from outland.errors import OutlandError
from outland.tables.reading import column_names, read_rows
from outland.tables.writing import check_out, without_formula, written_table

NAMES = ["id", "smiles", "note", "outland_probability"]
ROWS = [
    {"id": "7", "smiles": "c1ccccc1O", "note": "=cmd|' /C calc'!A0", "outland_probability": "0.25"},
    {"id": "8", "smiles": "aspirin", "note": "-1.5", "outland_probability": ""},
    {"id": "9", "smiles": "C[C@H](N)C(=O)O", "note": 'a, "b" and c', "outland_probability": "1e-05"},
]


def write(path, **options):
    with written_table(path, NAMES, "smiles", **options) as row:
        for cells in ROWS:
            row(cells)
    return path


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "tab", "parquet", "smi", "sdf", "sdf.gz", "xlsx"])
def test_what_is_written_is_read_again(tmp_path, suffix):
    if suffix == "xlsx":
        pytest.importorskip("openpyxl", reason="openpyxl is not installed: Excel cannot be tested")
    path = write(tmp_path / f"t.{suffix}", numbers=["outland_probability"])
    back = list(read_rows(path))
    assert set(NAMES) <= set(column_names(path))
    canonical = rdkit().CanonSmiles if suffix.startswith("sdf") else str
    assert [row["smiles"] for row in back if row["id"] != "8"] == [
        canonical(row["smiles"]) for row in ROWS if row["id"] != "8"
    ]
    for name in ("id", "note"):
        assert [row[name] for row in back] == [row[name] for row in ROWS]
    assert [row["outland_probability"] and float(row["outland_probability"]) for row in back] == [0.25, "", 1e-5]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_numbers_are_numbers_in_parquet(tmp_path):
    import pyarrow.parquet

    types = pyarrow.parquet.read_schema(write(tmp_path / "t.parquet", numbers=["outland_probability"])).types
    assert list(map(str, types)) == ["string", "string", "string", "double"]


def test_a_formula_is_text_in_excel(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: Excel cannot be tested")
    sheet = openpyxl.load_workbook(write(tmp_path / "t.xlsx")).worksheets[0]
    assert (sheet["C2"].data_type, sheet["C2"].value) == ("s", ROWS[0]["note"])
    assert (sheet["A2"].data_type, sheet["A2"].value) == ("n", 7)


def test_safe_cells_are_no_formulas(tmp_path):
    rows = list(read_rows(write(tmp_path / "t.csv", safe=True)))
    assert rows[0]["note"] == f"'{ROWS[0]['note']}"
    assert [without_formula(cell) for cell in ("+1", "-1.5e-3", "@x", "-a", "\t=1", "CCO", "")] == [
        "+1",
        "-1.5e-3",
        "'@x",
        "'-a",
        "'\t=1",
        "CCO",
        "",
    ]


def test_the_block_of_an_sdf_file_stays(tmp_path):
    text = write(tmp_path / "a.sdf").read_text().replace("RDKit          2D", "by hand        2D")
    (tmp_path / "b.sdf").write_text(text)
    names = column_names(tmp_path / "b.sdf")
    with written_table(tmp_path / "c.sdf", names, "smiles") as row:
        for cells in read_rows(tmp_path / "b.sdf"):
            row(cells)
    assert (tmp_path / "c.sdf").read_text().count("by hand        2D") == 3
    (tmp_path / "d.sdf").write_text("x\n\n\nno block\nM  END\n$$$$\n" + text)
    first = next(read_rows(tmp_path / "d.sdf"))
    assert (first["smiles"], first["smiles"].reason) == ("", "RDKit cannot read the molecule")


def test_nothing_is_left_where_writing_fails(tmp_path):
    def fail(path):
        with written_table(path, NAMES, "smiles") as row:
            row(ROWS[0])
            raise OutlandError("no more")

    for name in ("t.csv", "t.parquet", "t.sdf"):
        with pytest.raises(OutlandError, match="no more"):
            fail(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("a.html", "must end in"), ("a.parquet.gz", "without .gz"), (f"{'a' * 240}.csv", "too long for a file")],
)
def test_files_that_cannot_be_written(tmp_path, name, words):
    with pytest.raises(OutlandError, match=words):
        check_out(tmp_path / name, force=True)
