"""Pieces of molecules."""

from outland.chem.featurizer import parse
from outland.models.fragments import Piece, pieces, rank_pieces


def test_pieces_are_cut_where_a_synthesis_would_join_them():
    assert dict(pieces(parse("CC(=O)Nc1ccccc1"))) == {"CC=O": (0, 1, 2), "c1ccccc1": (4, 5, 6, 7, 8, 9)}
    anilide = ("CC(=O)Nc1ccccc1", (0.9, 0.8, 0.7, 0.1, *[0.2] * 6))
    ranked = rank_pieces([anilide] * 3 + [("CC(=O)Nc1ccccc1", (0.1,) * 10)] + [("CCO", (1.0,) * 3)] * 2)
    assert ranked == [Piece("CC=O", 4, 3)]  # the ring weighs one half in none of its four molecules
    assert Piece("C", 100, 90).sure > Piece("C", 3, 3).sure  # rare ones do not lead by luck
