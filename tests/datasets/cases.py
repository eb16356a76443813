"""Two hundred digits of MNIST, as images and as graphs, for the tests of CMNIST and its superpixels."""

from pathlib import Path

import numpy as np
import torch

from outland.datasets.cmnist import IMAGES, LABELS, PUBLISHED, read_idx
from outland.graphs import PackedGraphs
from tests.conftest import SAMPLES

MNIST = SAMPLES / "mnist-sample"


def sample_digits() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of the first digits of MNIST's training and test sets, and the two segmented twice."""
    images = [read_idx(MNIST / Path(file.path).name, (100, 28, 28)) for file in IMAGES]
    labels = [read_idx(MNIST / Path(file.path).name, (100,)) for file in LABELS]
    return np.concatenate(images), np.concatenate(labels)


def published_file(folder: Path, graphs: PackedGraphs, training: int) -> Path:
    records = [
        {"x": graph.x, "edge_index": graph.edge_index, "pos": torch.zeros(75, 2), "y": graph.y}
        for graph in graphs.to_data_list()
    ]
    path = folder / PUBLISHED.path
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save((records[:training], records[training:]), path)
    return path
