import os

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from outland.datasets import find_dataset
from outland.graphs import Cache
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.report.drawing import draw_gallery, draw_map, draw_masks
from outland.shift.novelty import Novelty
from outland.tables import TableSettings
from outland.tables.smiles_table import SmilesTable
from tests.conftest import SAMPLES


@pytest.mark.parametrize("source", ["motif", "table"])
def test_gallery_is_drawn(source, cache, tmp_path):
    if source == "motif":
        dataset = find_dataset("motif")
        splits = dataset.load("base", "covariate", cache=cache)
    else:
        dataset = SmilesTable(TableSettings(str(SAMPLES / "bbbp.csv"), target="p_np"))
        splits = dataset.load("scaffold", "covariate", cache=Cache(tmp_path))
    draw_gallery(dataset, splits, tmp_path / "gallery.png")
    pixels = imread(tmp_path / "gallery.png")
    assert pixels.shape[1] == 960
    assert pixels.std() > 0.05
    assert os.path.getsize(tmp_path / "gallery.png") > 20000


def test_masks_are_drawn(motif, tmp_path):
    torch.manual_seed(0)
    method = build_method("aia", motif.schema, BackboneSettings(width=8), method_settings("aia", {}))
    for number, methods in enumerate(({"": method}, {"one": method, "other": method})):
        draw_masks(methods, motif, motif["test"][:2], tmp_path / f"{number}.png")
        pixels = imread(tmp_path / f"{number}.png")
        assert pixels.shape[0] > 400
        assert pixels.shape[1] > 1000
        assert pixels.std() > 0.05
    both, of_one = (imread(tmp_path / f"{number}.png").shape[1] for number in (1, 0))
    assert both < of_one  # the truth and two stable masks; the truth and all three of AIA's


def test_both_tables_are_drawn_on_the_map(tmp_path):
    points = np.random.default_rng(0).normal(size=(2, 8, 2))
    novelty = Novelty((), 0, 0, (points[0], points[1]), 0.5)
    draw_map(novelty, ("rings.csv", "chains.csv"), tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 10_000
