import pytest

from outland.errors import OutlandError
from outland.tables.columns import find_smiles_column
from tests.tables.cases import write

ROWS = [("CCO", "ethanol", "0.5"), ("c1ccccc1", "benzene", "1.5"), ("CC(=O)O", "acetic acid", "2.5")]


def table(tmp_path, header, rows):
    return write(tmp_path / "t.csv", "\n".join(",".join(row) for row in [header, *rows]))


@pytest.mark.parametrize("name", ["SMILES", "mol", "canonical_smiles", "Structure", "compound 7"])
def test_the_column_is_found(tmp_path, name):
    path = table(tmp_path, (name, "name", "y"), ROWS)
    assert find_smiles_column(path, ["y"]) == name


def test_a_usual_name_wins_if_it_can_be_read(tmp_path):
    rows = [(name, smiles, smiles) for smiles, name, _ in ROWS]
    assert find_smiles_column(table(tmp_path, ("mol", "canonical_smiles", "other"), rows)) == "canonical_smiles"
    assert find_smiles_column(table(tmp_path, ("mol", "x", "preferred"), rows), preferred="preferred") == "preferred"


def test_where_it_is_not_clear_a_question_names_the_columns(tmp_path):
    with pytest.raises(OutlandError, match=r"which column of t\.csv holds the SMILES, a or b"):
        find_smiles_column(table(tmp_path, ("a", "b", "y"), [("CCOC", "CCNC", "1"), ("CCCC", "c1ccccc1", "2")]))
    header = [f"x{number}" for number in range(30)]
    with pytest.raises(OutlandError, match=r"columns: x0, x1, .* and 20 more\)"):
        find_smiles_column(table(tmp_path, header, [["1"] * 30] * 3))


def test_words_that_can_be_read_as_smiles_are_no_column_of_it(tmp_path):
    path = table(tmp_path, ("answer", "what"), [("NO", ROWS[0][0] + "CC"), ("NO", "c1ccccc1"), ("CO", "CCCCN")])
    assert find_smiles_column(path) == "what"
