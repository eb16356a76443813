"""Parquet: types of cells, names of files, and sizes that a file says it has."""

import random
import sys
import uuid
from pathlib import Path

import pytest

from outland.errors import OutlandError
from outland.tables.reading import column_names, read_rows

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: Parquet cannot be tested")
LARGE = r"column 'smiles' takes [0-9,]+ bytes in one row group"


def written(path: Path, **columns) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="none")
    return path


def long_table(path: Path, characters: int = 50_000) -> Path:
    """A table of two columns, whose texts do not pack."""
    chance = random.Random(0)
    texts = ["".join(chance.choices("CNO", k=100)) for _ in range(characters // 100)]
    return written(path, smiles=texts, y=list(range(len(texts))))


@pytest.fixture
def small_chunks(monkeypatch):
    """Columns of ten kilobytes are too large."""
    monkeypatch.setattr("outland.tables.parquet._MAX_CHUNK", 10_000)


class TestTypes:
    @pytest.mark.parametrize("kind", ["uuid", "bool8", "opaque"])
    def test_an_extension_type_of_short_values_is_read(self, tmp_path, kind):
        names = [uuid.UUID(int=number) for number in (1, 2)]
        stored, width, cells = {
            "uuid": ([name.bytes for name in names], pyarrow.uuid(), [*map(str, names), ""]),
            "bool8": ([1, 0], pyarrow.bool8(), ["True", "False", ""]),
            "opaque": ([3, 4], pyarrow.opaque(pyarrow.int32(), "kind", "vendor"), ["3", "4", ""]),
        }[kind]
        values = pyarrow.ExtensionArray.from_storage(width, pyarrow.array([*stored, None], width.storage_type))
        path = written(tmp_path / "t.parquet", smiles=["C", "CC", "CCC"], name=values)
        assert column_names(path) == ["smiles", "name"]
        assert [row["name"] for row in read_rows(path)] == cells

    @pytest.mark.parametrize("storage", ["string", "binary", "list", "width"])
    def test_one_of_values_without_bound_is_not(self, tmp_path, storage):
        width, value = {
            "string": (pyarrow.string(), "C"),
            "binary": (pyarrow.large_binary(), b"C"),
            "list": (pyarrow.list_(pyarrow.int8()), [1]),
            "width": (pyarrow.binary(20_000), b"C" * 20_000),
        }[storage]
        kind = pyarrow.opaque(width, "kind", "vendor")
        values = pyarrow.ExtensionArray.from_storage(kind, pyarrow.array([value], width))
        path = written(tmp_path / "t.parquet", smiles=["C"], name=values)
        with pytest.raises(OutlandError, match=r"a cell of column 'name' holds extension.*: leave it out"):
            list(read_rows(path))
        assert list(read_rows(path, ["smiles"])) == [{"smiles": "C"}]


class TestSizes:
    @pytest.mark.parametrize("name", ["t.parquet", "\udcff.parquet", "-c.parquet"])
    @pytest.mark.usefixtures("small_chunks")
    def test_a_large_column_is_refused_whatever_the_name_of_its_file(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(OutlandError, match=LARGE):
            list(read_rows(long_table(Path("t.parquet")).rename(name)))
        path = written(tmp_path / "u.parquet", smiles=["C"]).rename(name)
        assert list(read_rows(path)) == [{"smiles": "C"}]

    @pytest.mark.parametrize("said", [0, 1, -1])
    @pytest.mark.usefixtures("small_chunks")
    def test_what_a_row_group_says_of_its_size_is_not_believed(self, tmp_path, said):
        path = resized(long_table(tmp_path / "t.parquet"), said)
        with pytest.raises(OutlandError, match=LARGE):
            list(read_rows(path))

    @pytest.mark.parametrize("said", [0, -1])
    def test_a_column_without_a_size_is_refused(self, tmp_path, said):
        path = resized(long_table(tmp_path / "t.parquet"), said, column=0)
        with pytest.raises(OutlandError, match="what it says about its columns does not fit together"):
            list(read_rows(path))
        assert len(list(read_rows(path, ["y"]))) == 500

    def test_a_table_without_rows_has_no_size(self, tmp_path):
        assert list(read_rows(written(tmp_path / "t.parquet", smiles=pyarrow.array([], pyarrow.string())))) == []


class TestTheProcessThatIsAsked:
    @pytest.mark.usefixtures("small_chunks")
    def test_it_imports_nothing_from_the_current_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for module in (Path("json.py"), Path("pyarrow", "__init__.py")):
            module.parent.mkdir(exist_ok=True)
            module.write_text("open('ran', 'w')")
        with pytest.raises(OutlandError, match=LARGE):
            list(read_rows(long_table(Path("t.parquet"))))
        assert not Path("ran").exists()

    @pytest.mark.parametrize(
        ("program", "sentence"),
        [
            ("import os; os.abort()", "what it says about its columns does not fit together"),
            ("import no_such_module", "ended with status 1: ModuleNotFoundError: No module named 'no_such_module'"),
            ("import time; time.sleep(60)", "did not answer within 1 seconds"),
            ("import os; os.write(2, b'\\xff'); os._exit(3)", "ended with status 3: \ufffd"),
        ],
    )
    def test_an_end_of_its_own_has_a_sentence_of_its_own(self, tmp_path, monkeypatch, program, sentence):
        monkeypatch.setattr("outland.tables.parquet._SIZES", program)
        monkeypatch.setattr("outland.tables.parquet._PATIENCE", 1 if "sleep" in program else 60)
        with pytest.raises(OutlandError, match=sentence):
            list(read_rows(long_table(tmp_path / "t.parquet")))

    def test_a_python_that_is_not_there_is_a_sentence(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        with pytest.raises(OutlandError, match=r"cannot be read: .*No such file"):
            list(read_rows(long_table(tmp_path / "t.parquet")))


def resized(path: Path, said: int, column: int | None = None) -> Path:
    """The file, whose row group, or a column in it, says that it has another size, in as many bytes."""
    whole, number = path.read_bytes(), varint(size_said(path, column))
    place = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")  # where the footer begins
    while size_said(path, column) != said:
        place = whole.index(number, place) + 1
        path.write_bytes(whole[: place - 1] + varint(said, len(number)) + whole[place - 1 + len(number) :])
    return path


def size_said(path: Path, column: int | None) -> int:
    import pyarrow.parquet

    group = pyarrow.parquet.read_metadata(path).row_group(0)
    return int(group.total_byte_size if column is None else group.column(column).total_uncompressed_size)


def varint(number: int, length: int = 1) -> bytes:
    """A number as the footer has it: seven bits a byte, the sign in the lowest, in this many bytes at least."""
    bits, parts = (number << 1) ^ (number >> 63), []
    while bits or len(parts) < length:
        parts.append(bits & 127)
        bits >>= 7
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])
