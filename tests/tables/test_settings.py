import pytest

from outland.errors import OutlandError
from tests.tables.cases import ROWS, load, write


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("", {}, "is empty"),
        ("smiles,y\n", {}, "a header and no rows"),
        (ROWS, {"target": "label"}, r"unknown column of t.csv 'label'.*Valid: smiles, y"),
        (ROWS, {"smiles": "SMILES"}, r"Did you mean 'smiles'"),
        (ROWS, {"target": ""}, "Name it with --target"),
        ("smiles,y\nCC,\nCCC,\n", {}, "has no labels at all"),
        ("smiles,y\naspirin,1\nibuprofen,0\n", {}, "no row of .* can be used; the first: row 1, column 'smiles'"),
        (
            "smiles,y,z\nCC,1,a\nCCC,0,b\nC,0,c\n",
            {"target": ("y", "z")},
            "several targets must all be 0/1 or all be numbers, and 'z'",
        ),
    ],
)
def test_unusable_tables_get_a_sentence(tmp_path, text, settings, words):
    with pytest.raises(OutlandError, match=words):
        load(write(tmp_path / "t.csv", text), tmp_path, **settings)
