import os

import pytest
from matplotlib.image import imread

from outland.datasets import find_dataset
from outland.graphs import Cache
from outland.report.gallery import draw_gallery
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
