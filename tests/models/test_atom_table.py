"""Contributions as CSV."""

import csv

from outland.models.atom_table import write_atoms
from outland.models.explained_rows import Explained, ExplainedRow


def test_a_row_an_atom(tmp_path):
    rows = [
        ExplainedRow(1, {}, "CO", {"x": "1"}, (0.25, -1.5)),
        ExplainedRow(2, {}, "bad \udce9", {}, problem="no"),
        ExplainedRow(3, {}, "", {"x": "1"}, (0.125,)),
    ]
    assert write_atoms(Explained(rows, "contributions"), tmp_path / "atoms.csv") == 3
    with (tmp_path / "atoms.csv").open() as stream:
        assert list(csv.reader(stream)) == [
            ["row", "molecule", "atom", "element", "contribution"],
            ["1", "CO", "0", "C", "0.25"],
            ["1", "CO", "1", "O", "-1.5"],
            ["3", "", "0", "", "0.125"],
        ]
    write_atoms(Explained(rows, "mask"), tmp_path / "weights.csv")
    assert (tmp_path / "weights.csv").read_text().splitlines()[0].endswith(",weight")
