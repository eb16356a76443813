import csv

import pytest

from outland.errors import OutlandError
from outland.tables.quarantine import write_quarantine
from tests.conftest import SAMPLES
from tests.tables.cases import load


def test_nothing_is_dropped_unsaid(tmp_path):
    splits = load(SAMPLES / "bbbp.csv", tmp_path, target="p_np")
    assert splits.source["rows"] == 300
    assert [row[:2] for row in splits.source["quarantine"]] == [[60, "smiles"], [62, "smiles"]]
    assert write_quarantine(splits, tmp_path / "q.csv") == 2
    with (tmp_path / "q.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert rows[0]["row"] == "60"
    assert rows[0]["reason"] == "RDKit cannot read the SMILES"
    with pytest.raises(OutlandError, match="2 rows cannot be used; the first: row 60, column 'smiles'"):
        load(SAMPLES / "bbbp.csv", tmp_path, target="p_np", strict=True)
