import numpy as np

from outland.report.shift_map import draw_map
from outland.shift.novelty import Novelty


def test_both_tables_are_drawn(tmp_path):
    points = np.random.default_rng(0).normal(size=(2, 8, 2))
    novelty = Novelty((), 0, 0, (points[0], points[1]), 0.5)
    draw_map(novelty, ("rings.csv", "chains.csv"), tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 10_000
