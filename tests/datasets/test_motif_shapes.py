import pytest

from outland.datasets.motif_shapes import BASES, template


@pytest.mark.parametrize(
    ("base", "width", "nodes", "edges"),
    [
        ("wheel", 1, 1, 0),
        ("wheel", 2, 2, 1),
        ("wheel", 3, 3, 3),
        ("wheel", 10, 10, 18),
        ("tree", 1, 3, 2),
        ("tree", 10, 7, 6),
        ("tree", 70, 63, 62),
        ("ladder", 1, 2, 1),
        ("ladder", 10, 20, 28),
        ("star", 10, 11, 10),
        ("path", 1, 1, 0),
        ("path", 10, 10, 9),
    ],
)
def test_shapes(base, width, nodes, edges):
    shape = template(BASES.index(base), width, 1)
    assert (shape.base_size, len(shape.edges) - 5) == (nodes, edges)
