import csv

import pytest

from outland.errors import OutlandError
from outland.tables.rows import write_quarantine
from tests.conftest import SAMPLES
from tests.tables.cases import ROWS, load, write


def test_bytes_that_are_not_utf8_are_set_aside(tmp_path):
    path = write(tmp_path / "latin.csv", ROWS.encode() + "Méthane,1\n".encode("latin-1"))
    (refused,) = load(path, tmp_path).source["quarantine"]
    assert refused[0] == 21
    assert refused[3] == "bytes that are not UTF-8"


def test_odd_molecules_are_used_or_named(tmp_path):
    path = write(tmp_path / "odd.csv", ROWS + f"[Na+].[Cl-],1\n[Na+],0\n{'C' * 10000},1\n,1\nCCO,?\nCCO,maybe\n")
    splits = load(path, tmp_path)
    reasons = {row: reason for row, _, _, reason in splits.source["quarantine"]}
    assert splits.source["fragments"] == 1
    assert "10000 characters" in reasons[23]
    assert reasons[24] == "no SMILES"
    assert reasons[25] == "no label"
    assert reasons[26] == "the label is not 0 or 1"
    assert set(reasons) == {23, 24, 25, 26}


def test_duplicates_and_contradictions_are_counted(tmp_path):
    path = write(tmp_path / "dup.csv", ROWS + "OCC,0\nOCC,1\nOC,1\n")
    source = load(path, tmp_path).source
    assert source["duplicates"] == 3
    assert source["contradictions"] == 1


def test_dates_and_numbers_do_not_mix(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},20{n:02d}-01-01" for n in range(1, 31)] + ["CCCN,1,2020"]
    path = write(tmp_path / "t.csv", "smiles,y,when\n" + "\n".join(lines))
    (refused,) = load(path, tmp_path, "time", time="when").source["quarantine"]
    assert refused == [31, "when", "2020", "not a date, as others are"]


def test_a_row_without_its_split_or_environment_is_set_aside(tmp_path):
    lines = [f"{'C' * n}O,{n % 2},{('train', 'val', 'test')[n % 3] if n != 7 else ''}" for n in range(1, 31)]
    path = write(tmp_path / "t.csv", "smiles,y,part\n" + "\n".join(lines))
    (refused,) = load(path, tmp_path, "column", split="part").source["quarantine"]
    assert refused == [7, "part", "", "no split"]


def test_nothing_is_dropped_unsaid(tmp_path):
    splits = load(SAMPLES / "bbbp.csv", tmp_path, target="p_np")
    assert splits.source["rows"] == 300
    assert [row[:2] for row in splits.source["quarantine"]] == [[60, "smiles"], [62, "smiles"]]
    assert write_quarantine(splits, tmp_path / "q.csv") == tmp_path / "q.csv"
    assert write_quarantine(splits, tmp_path / "q.csv") == tmp_path / "q.csv"  # its own list is replaced
    (tmp_path / "mine.csv").write_text("row,column,value,reason I noted\n")
    assert write_quarantine(splits, tmp_path / "mine.csv") == tmp_path / "mine-2.csv"
    assert "I noted" in (tmp_path / "mine.csv").read_text()
    with (tmp_path / "q.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["row"] == "60"
    assert rows[0]["reason"] == "RDKit cannot read the SMILES"
    with pytest.raises(OutlandError, match="2 rows cannot be used; the first: row 60, column 'smiles'"):
        load(SAMPLES / "bbbp.csv", tmp_path, target="p_np", strict=True)
