import os
import pickle

import numpy as np
import pytest
import torch

from outland.datasets import DataFolder, superpixels
from outland.datasets.cmnist import CMNIST
from outland.datasets.superpixels import read_published, segment, superpixel_graphs
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs
from tests.datasets.cases import published_file


def same(graphs: PackedGraphs, others: PackedGraphs) -> bool:
    """Whether all tensors but the positions are equal: the published file has none."""
    first, second = ({k: v for k, v in g.tensors().items() if k != "extra.position"} for g in (graphs, others))
    return first.keys() == second.keys() and all(value.equal(second[name]) for name, value in first.items())


def test_every_digit_is_75_superpixels(digits, graphs):
    assert graphs.node_counts.tolist() == [75] * 200
    assert graphs.edge_counts.double().mean().item() == pytest.approx(1397, abs=15)
    assert graphs.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert graphs.y.equal(torch.from_numpy(digits[1].astype(np.int64)))
    assert graphs.extra["position"].shape == (200, 75, 2)
    assert graphs.x.shape == (200 * 75, 1)
    assert graphs.x.dtype == torch.float32
    assert graphs.x.min() == 0
    assert 0.9 < graphs.x.max() <= 1
    assert (graphs.x < 0.001).double().mean().item() == pytest.approx(0.65, abs=0.03)  # background


def test_gray_is_that_of_the_pixels(digits):
    flat = superpixel_graphs(np.full((1, 28, 28), 51, dtype=np.uint8), np.zeros(1, dtype=np.uint8), workers=1)
    assert flat.x.sub(0.2).abs().max() < 1e-6
    segments = segment(digits[0][:1])[0]
    gray = [digits[0][0][segments == node].mean() / 255 for node in range(75)]
    assert superpixel_graphs(digits[0][:1], digits[1][:1], workers=1).x.flatten().tolist() == pytest.approx(
        gray, abs=1e-6
    )


def test_edges_join_centers_within_nine_pixels(digits, graphs):
    segments = segment(digits[0][:1])[0]
    centers = np.array([np.argwhere(segments == node).mean(0) for node in range(75)])
    expected = {(u, v) for u in range(75) for v in range(75) if np.linalg.norm(centers[u] - centers[v]) <= 9 + 1e-9}
    first = graphs.select(torch.tensor([0]))
    edges = {(u, v) for u, v in first.edge_index.T.tolist()}
    assert len(edges) == first.edge_counts.item()
    assert edges <= expected
    assert len(expected) - len(edges) <= 2  # centers at nine pixels sharp may fall on either side of rounding


def test_edges_are_symmetric_with_loops_in_few_bits(graphs):
    assert (graphs.edge_index.dtype, graphs.reverse.dtype) == (torch.uint8, torch.int16)
    source, target = graphs.edge_index.long()
    loops = source == target
    assert int(loops.sum()) == 200 * 75
    partner = graphs.reverse + graphs.edge_offsets.repeat_interleave(graphs.edge_counts)
    assert source[partner].equal(target)
    assert partner[partner].equal(torch.arange(len(partner)))
    assert partner[loops].equal(loops.nonzero().flatten())


def test_two_workers_cut_what_one_does(digits, graphs, monkeypatch):
    monkeypatch.setattr(superpixels, "CHUNK", 60)
    assert same(superpixel_graphs(*digits, workers=2), graphs)


def test_a_digit_that_loses_a_superpixel_is_cut_again(digits, monkeypatch):
    images, labels = digits[0][-2:], digits[1][-2:]  # the only two of the 70,000
    assert superpixel_graphs(images, labels, workers=1).node_counts.tolist() == [75, 75]
    monkeypatch.setattr(superpixels, "COMPACTNESS", (0.5,))
    with pytest.raises(OutlandError, match="digit 0 falls into 74 superpixels, not 75"):
        superpixel_graphs(images, labels, workers=1)


def test_a_digit_without_75_superpixels_is_named_across_processes(digits, monkeypatch):
    monkeypatch.setattr(superpixels, "CHUNK", 2)
    small = np.concatenate([digits[0][:4], digits[0][:2]])[:, :8, :8]  # 64 pixels are too few
    with pytest.raises(OutlandError, match=r"digit 0 falls into 64 superpixels"):
        superpixel_graphs(small, digits[1][:6], workers=2)
    with pytest.raises(OutlandError, match=r"digit 500 falls into 64 superpixels"):
        segment(small, 500)
    with pytest.raises(OutlandError, match="no digits"):
        superpixel_graphs(small[:0], digits[1][:0])


def test_the_published_file_is_read(tmp_path, graphs, monkeypatch):
    monkeypatch.setattr(superpixels, "CHUNK", 4)
    few = graphs.select(torch.arange(10))
    path = published_file(tmp_path, few, 7)
    assert same(read_published(path), few)
    with pytest.raises(OutlandError, match=r"MNISTSuperpixels.pt holds 10 graphs, not 70000"):
        CMNIST().load("color", "covariate", cache=Cache(tmp_path / "cache"), data=DataFolder(tmp_path))


class Intruder:
    def __reduce__(self):
        return os.mkdir, ("intruded",)


def test_a_bad_published_file_is_refused(tmp_path, graphs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "MNISTSuperpixels.pt"
    torch.save([[{"x": Intruder()}], [{}]], path)
    with pytest.raises(OutlandError, match=r"MNISTSuperpixels.pt cannot be read"):
        read_published(path)
    path.write_bytes(pickle.dumps(Intruder(), protocol=2))
    with pytest.raises(OutlandError, match=r"MNISTSuperpixels.pt cannot be read"):
        read_published(path)
    assert not (tmp_path / "intruded").exists()
    path.write_bytes(b"")
    with pytest.raises(OutlandError, match="cannot be read"):
        read_published(path)
    torch.save({"x": torch.ones(3)}, path)
    with pytest.raises(OutlandError, match="two lists of graphs"):
        read_published(path)
    path = published_file(tmp_path, graphs.select(torch.arange(3)), 2)
    lists = torch.load(path, weights_only=True)
    del lists[1][0]["y"]
    torch.save(lists, path)
    with pytest.raises(OutlandError, match="graph 2: the tensors x, edge_index, y must be there"):
        read_published(path)
