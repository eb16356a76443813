"""Tables and SMILES of anything, in every format, through reading, labels and writing: ten thousands of them."""

import csv
import io
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outland.chem.limits import graph_problem, text_problem
from outland.chem.smiles import MoleculeOptions, has_invalid_utf8, read_block, read_molecules
from outland.errors import OutlandError
from outland.tables import parquet
from outland.tables.cells import parse_limit, parse_number
from outland.tables.columns import find_smiles_column
from outland.tables.labels import infer_labels
from outland.tables.reading import column_names, read_rows, smiles_texts
from outland.tables.writing import written_table
from tests.faults.fuzzing import fuzz, mutated_bytes
from tests.faults.harness import finish, scaled
from tests.faults.hostile import Tried, damaged, many
from tests.faults.molecules import C60, complete, cubic, ladder, para_ring, polyphenyl, spiro
from tests.faults.test_hostile_tables import LETTERS, MOLECULES, TABLE

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
words = st.sampled_from(["1", "0", "active", "TRUE", "no", ">10", "<= 5", "1,5", "nan", "inf", "", "a", "[/b]", "=1+1"])
text = st.text(max_size=12) | st.text("\x00\x1b\u202e\udc80\n\r\t,;\"'<>$&|", max_size=6) | words
smiles = st.sampled_from(MOLECULES[:60]) | st.text(LETTERS, max_size=30)
rings = st.one_of(
    st.integers(2, 60).map(para_ring),
    st.tuples(st.integers(4, 200), st.integers(0, 99)).map(lambda pair: cubic(2 * pair[0], pair[1])),
    st.integers(3, 24).map(complete),
    st.integers(2, 250).map(ladder),
    st.integers(1, 250).map(spiro),
    st.integers(1, 120).map(polyphenyl),
    st.just(C60),
)


def read(path: Path) -> int:
    """Everything that is asked of a table before its molecules are."""
    names = column_names(path)
    rows = list(islice(read_rows(path), 200))
    assert all(set(names) <= set(row) for row in rows)
    column = find_smiles_column(path)
    texts = list(islice(smiles_texts(path, column), 200))
    assert len(texts) == len(rows)
    infer_labels(rows, [names[-1]], merge=len(names) % 2 == 0, censored="drop")
    return len(rows)


def test_tables_of_any_format(tmp_path, tally):
    tried = Tried()
    wholes = {suffix: _whole(tmp_path, suffix) for suffix in (".csv", ".tsv", ".parquet", ".sdf", ".smi", ".csv.gz")}

    @many(3500)
    @given(st.sampled_from(list(wholes)), st.data())
    def check(suffix, data):
        path = tmp_path / f"t{suffix}"
        path.write_bytes(data.draw(damaged(wholes[suffix])))
        tried(lambda: read(path))

    check()
    assert scaled(50) < tried.refused < tried.inputs
    tally("inputs", "tables of any format", tried.inputs)


def _whole(folder: Path, suffix: str) -> bytes:
    """A good table of eight rows."""
    path, rows = folder / f"whole{suffix}", list(csv.DictReader(io.StringIO(TABLE.decode())))[:8]
    with written_table(path, list(rows[0]), "smiles") as write:
        for row in rows:
            write(row)
    return path.read_bytes()


def test_parquet_of_many_types(tmp_path, tally):
    """Dates beyond the calendar, sizes that do not fit together: pyarrow has an exception, or an end, for each."""
    whole, path = _parquet(tmp_path / "whole.parquet"), tmp_path / "t.parquet"

    def one(chance):
        path.write_bytes(mutated_bytes(chance, whole))
        return lambda: (column_names(path), list(read_rows(path)))

    tried = fuzz(4_000, one)
    assert tried.refused > 0.5 * tried.inputs
    tally("inputs", "tables of any format", tried.inputs)


def test_a_parquet_file_that_ends_pyarrow_ends_no_command(tmp_path, monkeypatch, tally):
    """Where a row group is large, the sizes of its columns are asked for: pyarrow aborts where they do not fit."""
    path = tmp_path / "t.parquet"
    _parquet(path)
    monkeypatch.setattr("outland.tables.parquet._MAX_CHUNK", 100)
    with pytest.raises(OutlandError, match=r"'smiles' takes [0-9]+ bytes in one row group"):
        read(path)
    monkeypatch.setattr("outland.tables.parquet._SIZES", "import os; os.abort()")
    with pytest.raises(OutlandError, match="what it says about its columns does not fit together"):
        read(path)
    tally("inputs", "tables of any format", 2)


def test_damage_where_a_parquet_file_says_its_sizes_ends_no_process(tmp_path, tally):
    """Which bytes pyarrow aborts at is its own affair; what reads the table goes on after every one of them."""
    path = tmp_path / "t.parquet"
    whole = _parquet(path)
    footer = len(whole) - int.from_bytes(whole[-8:-4], "little") - 8
    places = [*range(footer, footer + 200, 3), *range(footer + 200, len(whole) - 8, 60)]
    finish(_read_damaged, path, whole, places)
    tally("inputs", "tables of any format", len(places))


def _read_damaged(path: Path, whole: bytes, places: list[int]) -> None:
    """For a child: read the file with each of these bytes damaged, as one whose columns are all too large."""
    parquet._MAX_CHUNK = 100
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(OutlandError, match=r"\w+ \w+"):
            list(read_rows(path))


def _parquet(path: Path) -> bytes:
    """A good file with columns of many types, not compressed, so that damage reaches the values."""
    import pyarrow
    from pyarrow import parquet

    days = [date(2020, 1, 1 + number) for number in range(8)]
    times = pyarrow.array([datetime(2020, 1, 1 + number) for number in range(8)], pyarrow.timestamp("ns", "UTC"))
    numbers = pyarrow.array([Decimal(number) for number in range(8)], pyarrow.decimal128(9, 2))
    named = pyarrow.array(["a", "b"] * 4).dictionary_encode()
    columns = {"smiles": MOLECULES[:8], "time": times, "day": days, "number": numbers, "bytes": [b"\xff"] * 8}
    table = pyarrow.table({**columns, "name": named, "hour": [time(1)] * 8, "real": [0.5] * 8, "y": [True, False] * 4})
    parquet.write_table(table, path, compression="none")
    return path.read_bytes()


def test_rows_of_anything(tmp_path, tally):
    tried, path = Tried(), tmp_path / "t.csv"
    suffixes = st.sampled_from([".csv", ".tsv", ".parquet", ".sdf", ".smi"])

    @many(4000)
    @given(st.lists(text, min_size=1, max_size=4), st.lists(st.lists(text | smiles, max_size=6), max_size=8), suffixes)
    def check(header, rows, suffix):
        with path.open("w", newline="", encoding="utf-8", errors="surrogatepass") as stream:
            csv.writer(stream, escapechar="\\").writerows([["smiles", *header, "y"], *rows])
        tried(lambda: read(path))
        tried(lambda: _copy(path, tmp_path / f"copy{suffix}"))

    check()
    tally("inputs", "tables of any format", tried.inputs)


def _copy(path: Path, out: Path) -> None:
    """The table in another format, with as many rows."""
    names, rows = column_names(path), list(read_rows(path))
    with written_table(out, names, "smiles", safe=len(rows) % 2 == 0) as write:
        for row in rows:
            write(row)
    if out.suffix in (".csv", ".tsv", ".parquet"):
        assert sum(1 for _ in read_rows(out)) == len(rows)


def test_cells_of_anything(tally):
    tried = Tried()

    @many(6000)
    @given(
        st.lists(text, max_size=10),
        st.sampled_from(["auto", "binary", "multiclass", "regression"]),
        st.sampled_from(["ask", "drop", "value"]),
        st.booleans(),
    )
    def check(cells, task, censored, merge):
        rows = [{"y": cell} for cell in cells]
        reader = tried(lambda: infer_labels(rows, ["y"], task, merge, merge, censored))
        for row in rows if reader else ():
            values, problem = reader.read(row)
            assert (problem is None) == (len(values) == 1)
        assert all(parse_number(cell) is None or parse_limit(f">{cell}") is not None for cell in cells)

    check()
    tally("inputs", "labels", tried.inputs)


def test_rings_of_anything(tally):
    tried, options = Tried(), MoleculeOptions(canonical=True, fingerprint=True)
    mixed = st.one_of(
        smiles,
        rings,
        st.lists(rings, min_size=2, max_size=4).map(".".join),
        rings.flatmap(lambda ring: damaged(ring.encode())).map(lambda ring: ring.decode("utf-8", "surrogateescape")),
        rings.map(lambda ring: ring.replace("C", "c")),
    )

    @many(1500)
    @given(mixed)
    def check(smiles):
        (chunk,) = tried(lambda: list(read_molecules([smiles], options, "")))
        assert len(chunk.indices) + len(chunk.failures) == 1
        if not has_invalid_utf8(smiles) and text_problem(smiles.strip()):
            assert chunk.failures

    check()
    tally("inputs", "rings without end", tried.inputs)


def test_blocks_of_anything(tally):
    from outland.chem.featurizer import rdkit

    tried = Tried()
    block = rdkit().MolToMolBlock(rdkit().MolFromSmiles(MOLECULES[3])).encode()

    @many(5000)
    @given(damaged(block))
    def check(content):
        found = tried(lambda: read_block(content.decode("utf-8", "surrogateescape")))
        assert bool(found) != bool(found.reason)
        assert not found or not graph_problem(rdkit().MolFromSmiles(found, sanitize=False))

    check()
    tally("inputs", "blocks of molecules", tried.inputs)
