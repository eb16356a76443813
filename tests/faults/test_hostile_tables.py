"""Tables of SMILES that no person would write."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outland.chem.smiles import Chunk, MoleculeOptions, read_molecules
from outland.datasets import TableSettings, find_dataset
from outland.graphs import Cache
from outland.tables.smiles_table import read_unlabelled
from tests.conftest import SAMPLES
from tests.faults.harness import scaled
from tests.faults.hostile import Tried, damaged, many

pytestmark = pytest.mark.faults
LINES = (SAMPLES / "bbbp.csv").read_bytes().splitlines(keepends=True)
TABLE = b"".join(LINES[:25])
MOLECULES = [line.decode().rpartition(",")[2].strip() for line in LINES[1:]]
LETTERS = "CNOPSFIclnosBrH[]()=#@+-/\\.%0123456789*:$~&>|{} \t\x00é"


def load(path, folder, **columns):
    """A table on its way to being trained on."""
    table = TableSettings(str(path), **{"target": ("p_np",), **columns})
    for domain in ("random", "scaffold"):
        find_dataset("x", table).load(domain, "covariate", cache=Cache(folder))


def test_damaged_tables(tmp_path, tally):
    tried, path = Tried(), tmp_path / "table.csv"

    @many(600)
    @given(damaged(TABLE))
    def check(content):
        path.write_bytes(content)
        tried(lambda: load(path, tmp_path / "cache"))
        tried(lambda: read_unlabelled(str(path), "smiles"))

    check()
    assert scaled(10) < tried.refused < tried.inputs
    tally("inputs", "tables", tried.inputs)


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet"])
def test_damaged_packed_tables(suffix, tmp_path, tally):
    tried, path = Tried(), tmp_path / f"table{suffix}"
    whole = gzip.compress(TABLE, mtime=0) if suffix == ".csv.gz" else parquet()

    @many(800)
    @given(damaged(whole))
    def check(content):
        path.write_bytes(content)
        tried(lambda: load(path, tmp_path / "cache"))

    check()
    assert tried.refused > scaled(10)
    tally("inputs", "tables", tried.inputs)


def parquet() -> bytes:
    import pyarrow
    from pyarrow import csv, parquet

    stream = io.BytesIO()
    parquet.write_table(csv.read_csv(pyarrow.BufferReader(TABLE)), stream)
    return stream.getvalue()


cell = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "nan", "inf", "1e999", "-1e400", "1,5", "9" * 400, "=1+1", '"', "\x00", "0x10", "1_000", "٣"]),
    st.sampled_from(["2019-13-45", "0000-00-00", "9999-12-31T23:59:59.999999+99:99", "-1", "train", "Train "]),
    st.sampled_from(MOLECULES[:30]),
)
row = st.tuples(
    st.sampled_from(MOLECULES[:30]) | cell,
    st.sampled_from(["0", "1", "2.5", "a", "b"]) | cell,
    st.sampled_from(["1", "2", "2019-05-31"]) | cell,
    st.sampled_from(["train", "val", "test"]) | cell,
)


def test_tables_of_anything(tmp_path, tally):
    import csv

    tried, path = Tried(), tmp_path / "table.csv"
    names = ["smiles", "p_np", "when", "part", "lab"]

    @many(800)
    @given(
        st.lists(row | st.lists(cell, max_size=7).map(tuple), max_size=15),
        st.sampled_from(["auto", "binary", "multiclass", "regression"]),
        st.sampled_from(["random", "scaffold", "size", "cluster", "time", "column"]),
        st.booleans(),
    )
    def check(rows, task, domain, strict):
        with path.open("w", newline="", encoding="utf-8", errors="surrogatepass") as stream:
            csv.writer(stream, escapechar="\\").writerows([names, *rows])
        table = TableSettings(str(path), target=("p_np",), task=task, time="when", split="part", strict=strict)
        tried(lambda: find_dataset("x", table).load(domain, "covariate", cache=Cache(tmp_path / "cache")).check())

    check()
    tally("inputs", "tables", tried.inputs)


def featurized(texts: list[str]) -> Chunk:
    """The one chunk of a short stream."""
    options = MoleculeOptions(scaffold=True, canonical=True, fingerprint=True)
    return next(read_molecules(texts, options, ""), Chunk())


def test_smiles_of_anything(tally):
    tried = Tried()
    mutants = st.sampled_from(MOLECULES).flatmap(lambda smiles: damaged(smiles.encode()))
    letters = st.text(LETTERS, max_size=60)
    repeated = st.tuples(st.text(LETTERS, min_size=1, max_size=8), st.integers(1, 600)).map(lambda p: p[0] * p[1])

    @many(1000)
    @given(
        st.lists(
            mutants.map(lambda smiles: smiles.decode("utf-8", "surrogateescape")) | letters | repeated, max_size=20
        )
    )
    def check(texts):
        chunk = tried(lambda: featurized(texts))
        assert sorted([*chunk.indices, *(index for index, _ in chunk.failures)]) == list(range(len(texts)))
        assert len(chunk.molecules) == len(chunk.scaffolds) == len(chunk.canonical) == len(chunk.fingerprints)
        tried.inputs += len(texts)

    check()
    assert tried.inputs > scaled(2000)
    tally("inputs", "SMILES", tried.inputs)
