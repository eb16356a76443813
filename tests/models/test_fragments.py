"""Ring systems and functional groups."""

import pytest

from outland.chem.featurizer import parse
from outland.models.fragments import Piece, pieces, rank_pieces


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CC(=O)Nc1ccccc1", {"c1ccccc1": (4, 5, 6, 7, 8, 9), "cNC(C)=O": (1, 2, 3)}),
        ("O=[N+]([O-])c1ccccc1", {"c1ccccc1": (3, 4, 5, 6, 7, 8), "c[N+](=O)[O-]": (0, 1, 2)}),
        ("C1CCC2CCCCC2C1", {"C1CCC2CCCCC2C1": tuple(range(10))}),
        ("CCO", {"CO": (2,)}),
        ("COC", {"COC": (1,)}),
        ("C=CC", {"C=CC": (0, 1)}),
        ("CC", {}),
    ],
)
def test_pieces(smiles, expected):
    assert dict(pieces(parse(smiles))) == expected


def test_pieces_are_ranked_by_sure_effect_with_sign_and_count():
    up = [("CCO", (0.0, 0.1, value)) for value in (1.0, 1.1, 0.9, 1.0)]
    down = [("CCN", (0.0, 0.1, value)) for value in (-0.5, -0.6, -0.4)]
    unsure = [("CCS", (0.0, 0.0, value)) for value in (-1.0, 1.0, 0.1)]
    rare = [("CCBr", (0.0, 0.0, 9.0))] * 2
    twice = [("OCCCO", (1.0, 0.0, 0.0, 0.0, 1.2))]
    first, second = rank_pieces(up + down + unsure + rare + twice)
    assert [(piece.smiles, piece.molecules) for piece in first] == [("CO", 5)]
    assert first[0].effect == pytest.approx((1.0 + 1.1 + 0.9 + 1.0 + 1.1) / 5)
    assert [(piece.smiles, piece.molecules) for piece in second] == [("CN", 3)]
    assert second[0].effect == pytest.approx(-0.5)
    assert Piece("C", 3, -0.5, 0.1).sure == pytest.approx(-0.304)
    assert Piece("C", 3, 0.1, 0.1).sure == 0
