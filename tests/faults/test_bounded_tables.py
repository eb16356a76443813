"""Small files that unpack to more than there is: each ends in a sentence, in seconds and a gigabyte."""

import gzip
import os
import resource
import signal
import threading
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from outland.chem.limits import MAX_ATOMS
from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.datasets import TableSettings, find_dataset
from outland.errors import OutlandError
from outland.graphs import Cache
from outland.models import load_model
from outland.models.table_predictions import predict_table
from outland.storage.files import write_text
from outland.tables import reading
from outland.tables.reading import column_names, read_rows, require_columns
from outland.tables.rows import write_quarantine
from tests.faults.harness import bounded, finish, some
from tests.faults.hostile import Tried
from tests.faults.molecules import C60, complete, cubic, ladder, para_ring, polyphenyl, spiro, woven
from tests.models.cases import TABLE

LIMIT = 1 << 20  # kilobytes that a child may take beyond what it has


def in_a_gigabyte(work, *given) -> None:
    """Work that must end well or in a sentence, and must not take a gigabyte more than there is."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with suppress(OutlandError):
        work(*given)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < LIMIT
    assert time.process_time() - started < 10


def predict(folder: Path, path: Path, out: Path) -> None:
    predict_table(load_model(folder), path, out)


def read_all(path: Path) -> None:
    for _ in read_rows(path):
        pass


def repeated(path: Path, characters: int, rows: int) -> None:
    """A Parquet file that holds one text, many times."""
    import pyarrow
    import pyarrow.parquet

    index = pyarrow.array([0] * rows, pyarrow.int32())
    texts = pyarrow.DictionaryArray.from_arrays(index, pyarrow.array(["C" * characters]))
    pyarrow.parquet.write_table(pyarrow.table({"smiles": texts, "y": index}), path, compression="zstd")


def one_line(path: Path, characters: int) -> None:
    """A gzip'd table with one line of so many characters, packed once and written again and again."""
    part = gzip.compress(b"C" * (1 << 20))
    with path.open("wb") as stream:
        stream.write(gzip.compress(b"smiles,y\n"))
        for _ in range(characters >> 20):
            stream.write(part)


@pytest.mark.parametrize("characters", [8_000_000, 900_000])
def test_a_text_that_parquet_repeats(characters, tmp_path, tally):
    path = tmp_path / "t.parquet"
    repeated(path, characters, 100_000 if characters > 1_000_000 else 1500)
    assert path.stat().st_size < 20_000
    finish(in_a_gigabyte, read_all, path)
    if characters > 1_000_000:
        with pytest.raises(OutlandError, match="a cell of column 'smiles' has more than 1,000,000 characters"):
            read_all(path)
    tally("inputs", "tables that unpack", 1)


def test_a_line_without_end(tmp_path, tally):
    path = tmp_path / "t.csv.gz"
    one_line(path, 8 << 30)
    assert path.stat().st_size < 10_000_000
    finish(in_a_gigabyte, read_all, path)
    with pytest.raises(OutlandError, match="line 2: more than 16,000,000 characters in one line"):
        read_all(path)
    (tmp_path / "quoted.csv").write_text('smiles,y\n"C' + "C\n" * 600_000)
    with pytest.raises(OutlandError, match=r"line .*field larger than field limit"):
        read_all(tmp_path / "quoted.csv")
    (tmp_path / "fields.csv").write_text("smiles,y\n" + 'a,"\n",' * 4_000_000)
    with pytest.raises(OutlandError, match="a row of more than 16,000,000 characters"):
        read_all(tmp_path / "fields.csv")
    tally("inputs", "tables that unpack", 3)


def test_columns_without_end(tmp_path, tally):
    path = tmp_path / "t.csv"
    path.write_text(",".join(["smiles", *(f"c{number}" for number in range(100_000))]) + "\nCCO" + ",1" * 100_000)
    started = time.process_time()
    with pytest.raises(OutlandError, match="has 100,001 columns; at most 20,000 are taken: leave some out"):
        column_names(path)
    path.write_text(",".join(["smiles", *(f"c{number}" for number in range(19_999))]) + "\nCCO" + ",1" * 19_999)
    with pytest.raises(OutlandError, match=r"Valid: c0, .* and 19,990 more"):
        require_columns(path, ["d1"])
    assert len(next(read_rows(path))) == 20_000
    assert time.process_time() - started < 5
    tally("inputs", "tables that unpack", 2)


def test_a_wide_table_is_predicted_in_bounded_memory(model_folder, tmp_path, tally):
    path, columns = tmp_path / "t.csv", 2000
    header = ",".join(["smiles", *(f"c{number}" for number in range(columns))])
    path.write_text(header + "\n" + ("CCO" + ",1" * columns + "\n") * 600)
    finish(in_a_gigabyte, predict, model_folder, path, tmp_path / "out.csv", daemon=False)
    assert len(column_names(tmp_path / "out.csv")) == columns + 7
    tally("inputs", "tables that unpack", 1)


def test_a_table_that_is_edited_while_it_is_read_is_not_cached(tmp_path, monkeypatch, tally):
    path, edits = tmp_path / "t.csv", ["append", "rewrite", "swap", "there and back", "times too"]
    first = "smiles,y\n" + "".join(f"{'C' * (n % 40 + 1)}O,{n % 2}\n" for n in range(400))
    other = first.replace(",0\n", ",1\n").replace("CCCO,1", "CCCO,0")
    for edit in edits:
        path.write_text(first)
        table, cache, times = TableSettings(str(path), target=("y",)).opened(), Cache(tmp_path / edit), path.stat()
        kept, calls = reading.read_rows, []

        def edited(name, columns=None, edit=edit, kept=kept, calls=calls, times=times):
            calls.append(name)
            if edit == "swap" and len(calls) == 2:
                (tmp_path / "new.csv").write_text(other)
                (tmp_path / "new.csv").replace(path)
            elif len(calls) == 2:
                path.write_text(first + "CCN,1\n" if edit == "append" else other)
            try:
                yield from kept(name, columns)
            finally:  # also of a reader that stops before the end
                if edit in ("there and back", "times too"):
                    path.write_text(first)
                if edit == "times too":
                    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

        monkeypatch.setattr("outland.tables.smiles_table.read_rows", edited)
        with pytest.raises(OutlandError, match="has changed while it was read"):
            find_dataset("t", table).load("random", "covariate", cache=cache)
        monkeypatch.undo()
        path.write_text(first)
        assert find_dataset("t", table).load("random", "covariate", cache=cache).graphs.y.sum() == 200
    tally("faults", "tables edited while they are read", len(edits))


def test_what_was_read_once_needs_no_table_again(tmp_path, tally):
    path = tmp_path / "t.csv"
    path.write_bytes(TABLE.read_bytes())
    table, cache = TableSettings(str(path), target=("p_np",)).opened(), Cache(tmp_path / "cache")
    before = find_dataset("t", table).load("random", "covariate", cache=cache)
    lines = path.read_text().splitlines(keepends=True)
    for edit in (lambda: path.write_text("".join([lines[0], *reversed(lines[1:])])), path.unlink):
        edit()
        after = find_dataset("t", table).load("random", "covariate", cache=cache)
        assert after.graphs.extra["hash"].tolist() == before.graphs.extra["hash"].tolist()
    tally("faults", "tables changed after they were read", 2)


def test_a_list_of_rows_set_aside_replaces_no_other_file(tmp_path, tally):
    splits = find_dataset("t", TableSettings(str(TABLE), target=("p_np",))).load(
        "random", "covariate", cache=Cache(tmp_path / "cache")
    )
    precious = tmp_path / "t-quarantine.csv"
    for content in ("precious", "row,column,value,reason I noted\n", ""):
        precious.write_text(content)
        assert write_quarantine(splits, precious) == tmp_path / "t-quarantine-2.csv"
        assert precious.read_text() == content
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere")
    assert write_quarantine(splits, tmp_path / "link.csv") == tmp_path / "link-2.csv"
    assert not (tmp_path / "nowhere").exists()
    tally("faults", "files that are not ours", 4)


RINGS = {
    "chords": [cubic(1000), woven(1000, 60), woven(590, 60), *(cubic(n, n) for n in (100, 300, 400, 500))],
    "ways around": [para_ring(n) for n in (9, 12, 16, 20, 30, 40, 60, 90)],
    "aromatic ways around": [para_ring(n).replace("C", "c") for n in (9, 16, 20, 30)],
    "all with all": [complete(n) for n in (10, 14, 20, 30)],
    "fused": [ladder(n) for n in (33, 100, 250)],
    "several": [".".join([para_ring(8)] * n) for n in (3, 6, 9)] + [".".join([C60] * 7)],
    "too large": ["C" * (MAX_ATOMS + 1), ".".join(["[H][H]"] * 700), polyphenyl(120), spiro(250)],
}
OPTIONS = MoleculeOptions(canonical=True, fingerprint=True)


@pytest.mark.parametrize("kind", RINGS)
def test_rings_without_end_end_in_a_sentence(kind, tally):
    tried = Tried()
    for smiles in RINGS[kind]:
        started = time.process_time()
        (chunk,) = tried(lambda smiles=smiles: list(read_molecules([smiles], OPTIONS, "")))
        assert time.process_time() - started < 1
        assert chunk.failures
        assert "taken" in chunk.failures[0][1]
    tally("inputs", "rings without end", tried.inputs)


TAKEN = [C60, para_ring(8), para_ring(8).replace("C", "c"), polyphenyl(100), spiro(199), cubic(60), complete(9)]
TAKEN += ["C" * MAX_ATOMS, "*" * MAX_ATOMS, "C(" * 599 + "C" + ")" * 599, ".".join("C" * MAX_ATOMS), ladder(31)]
TAKEN += [".".join([para_ring(7)] * 2) + "C" * 500, ".".join([C60] * 6), "C1" + "[C@H](O)" * 299 + "1"]


def test_the_largest_that_are_taken_take_a_second(tally):
    tried = Tried()
    for smiles in some(TAKEN):
        started = time.process_time()
        (chunk,) = tried(lambda smiles=smiles: list(read_molecules([smiles], OPTIONS, "")))
        assert not chunk.failures or "RDKit cannot" in chunk.failures[0][1], smiles
        assert time.process_time() - started < 1.5, smiles
    tally("inputs", "rings without end", tried.inputs)


@pytest.fixture
def interruptible():
    """SIGINT as a terminal has it: a shell starts what it puts into the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_is_heard_between_molecules():
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    started = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in read_molecules([polyphenyl(100)] * 1000, OPTIONS, ""):
            pass
    assert time.monotonic() - started < 10


def test_places_that_cannot_be_written_get_a_sentence(model_folder, tmp_path, tally):
    tried, model = Tried(), load_model(model_folder)
    few = tmp_path / "few.csv"
    few.write_text("smiles\nCCO\n")
    (tmp_path / "file").write_text("")
    places = [
        tmp_path / f"{'a' * 240}.csv",
        tmp_path / "file" / "out.csv",
        Path("/dev/full"),
    ]
    places += [tmp_path, few, Path("/proc/out.csv"), tmp_path / "out.xls"]
    for place in places:
        with bounded():
            tried(lambda place=place: predict_table(model, few, place, force=True))
    assert tried.refused == len(places)
    assert few.read_text() == "smiles\nCCO\n"
    odd = tmp_path / "\udcff.csv"
    assert predict_table(model, few, odd).rows == 1
    with pytest.raises(OutlandError, match="is not in UTF-8: rename it"):
        TableSettings(str(odd), target=("outland_class",)).opened()
    write_text(tmp_path / "page.html", f"of {odd.name}")
    assert (tmp_path / "page.html").read_text() == r"of \udcff.csv"
    tally("inputs", "places", tried.inputs + 3)


def test_a_workbook_that_unpacks_without_end(tmp_path, tally):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed: Excel cannot be tested")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b" " * (1 << 29))
    with pytest.raises(OutlandError, match="takes 536,870,912 bytes unpacked, too many for a workbook"):
        column_names(tmp_path / "t.xlsx")
    for content in (b"", b"PK", b"PK\x03\x04" + b"x" * 100, (tmp_path / "t.xlsx").read_bytes()[:1000]):
        (tmp_path / "u.xlsx").write_bytes(content)
        with pytest.raises(OutlandError):
            column_names(tmp_path / "u.xlsx")
    tally("inputs", "tables that unpack", 5)
