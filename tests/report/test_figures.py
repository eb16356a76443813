import pytest

from outland.report.figures import rescaled, row_colours
from outland.studies import find_study


def test_aia_and_erm_keep_their_colours():
    many, few = find_study("covariate"), find_study("ablation")
    assert row_colours(many.rows, "ERM")["AIA (released)"] == row_colours(few.rows, "ERM")["AIA"] == 0
    assert row_colours(many.rows, "ERM")["ERM"] == row_colours(few.rows, "ERM")["ERM"] == 1
    assert row_colours(many.rows, "ERM")["DIR"] is None
    colours = row_colours(many.with_newer().rows, "ERM")
    assert [name for name, colour in colours.items() if colour == 2] == ["ours Evidence"]
    assert colours["since the paper LECI"] is None
    assert sorted(row_colours(few.rows, "ERM").values()) == [0, 1, 2, 3, 4]


def test_weights_are_rescaled_within_a_graph():
    ends = [[0, 1], [1, 0], [1, 2], [2, 1]]
    picture = rescaled({"ends": ends, "node": [0.4, 0.5, 0.6], "edge": [0.2, 0.2, 0.4, 0.4]})
    assert picture["edge"] == [0.0, 0.0, 1.0, 1.0]
    assert picture["node"] == pytest.approx([0.0, 0.5, 1.0])
    edges_alone = rescaled({"ends": ends, "node": [1.0, 1.0, 1.0], "edge": [0.2, 0.2, 0.4, 0.4]})
    assert edges_alone["node"] == [0.0, 1.0, 1.0]
    even = rescaled({"ends": ends, "node": [0.5, 0.6, 0.7], "edge": [0.3] * 4})
    assert even["edge"] == [0.3] * 4
