import torch

from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.report.masks import draw_masks


def test_picture_is_drawn(motif, tmp_path):
    from matplotlib.image import imread

    torch.manual_seed(0)
    method = build_method("aia", motif.schema, BackboneSettings(width=8), method_settings("aia", {}))
    draw_masks(method, motif, motif["test"][:2], tmp_path / "masks.png")
    pixels = imread(tmp_path / "masks.png")
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > 1000
    assert pixels.std() > 0.05
