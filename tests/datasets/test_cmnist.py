import gzip
import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from outland.datasets import cmnist, superpixels
from outland.datasets.cmnist import CMNIST, IMAGES, LABEL, LABELS, PALETTE, PUBLISHED, paint, read_idx, replay
from outland.datasets.superpixels import cut, read_published
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs
from outland.storage.raw_files import DataFolder

SAMPLE = Path(__file__).parents[1] / "data" / "mnist-sample"
SIZES = {
    "covariate": {"train": 42000, "id_val": 7000, "id_test": 7000, "val": 7000, "test": 7000},
    "concept": {"train": 29400, "id_val": 6300, "id_test": 6300, "val": 14000, "test": 14000},
    "none": {"train": 42000, "val": 14000, "test": 14000},
}


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Two hundred digits: the first of MNIST's training and test sets, and the two that are cut again."""
    images = [read_idx(SAMPLE / Path(file.path).name, (100, 28, 28)) for file in IMAGES]
    labels = [read_idx(SAMPLE / Path(file.path).name, (100,)) for file in LABELS]
    return np.concatenate(images), np.concatenate(labels)


@pytest.fixture(scope="module")
def graphs(digits) -> PackedGraphs:
    return cut(*digits, workers=1)


@pytest.fixture(scope="module")
def full_data(data) -> DataFolder:
    if not (data.folder / "mnist").exists() or not (data.folder / "splits").exists():
        pytest.skip("mnist/ and splits/ are not in the folder that OUTLAND_DATA names")
    return data


@pytest.fixture(scope="module")
def plans() -> dict[str, cmnist.Plan]:
    return replay(123)


def same(one: PackedGraphs, other: PackedGraphs) -> bool:
    """Whether the graphs are; only those cut here know where their superpixels lie."""
    first, second = ({k: v for k, v in g.tensors().items() if k != "extra.position"} for g in (one, other))
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


def test_grey_is_that_of_the_pixels(digits):
    flat = cut(np.full((1, 28, 28), 51, dtype=np.uint8), np.zeros(1, dtype=np.uint8), workers=1)
    assert flat.x.sub(0.2).abs().max() < 1e-6
    segments = superpixels._segments(0, digits[0][:1])[0]
    grey = [digits[0][0][segments == node].mean() / 255 for node in range(75)]
    assert cut(digits[0][:1], digits[1][:1], workers=1).x.flatten().tolist() == pytest.approx(grey, abs=1e-6)


def test_edges_join_centres_within_nine_pixels(digits, graphs):
    segments = superpixels._segments(0, digits[0][:1])[0]
    centres = np.array([np.argwhere(segments == node).mean(0) for node in range(75)])
    expected = {(u, v) for u in range(75) for v in range(75) if np.linalg.norm(centres[u] - centres[v]) <= 9 + 1e-9}
    first = graphs.select(torch.tensor([0]))
    found = {(u, v) for u, v in first.edge_index.T.tolist()}
    assert len(found) == first.edge_counts.item()
    assert found <= expected
    assert len(expected) - len(found) <= 2  # centres at nine pixels sharp may fall on either side of rounding


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
    monkeypatch.setattr(superpixels, "_CHUNK", 60)
    assert same(cut(*digits, workers=2), graphs)


def test_a_digit_that_loses_a_superpixel_is_cut_again(digits, monkeypatch):
    images, labels = digits[0][-2:], digits[1][-2:]  # the only two of the 70,000
    assert cut(images, labels, workers=1).node_counts.tolist() == [75, 75]
    monkeypatch.setattr(superpixels, "_COMPACTNESS", (0.5,))
    with pytest.raises(OutlandError, match="digit 0 falls into 74 superpixels, not 75"):
        cut(images, labels, workers=1)


def test_a_digit_without_75_superpixels_is_named_across_processes(digits, monkeypatch):
    monkeypatch.setattr(superpixels, "_CHUNK", 2)
    small = np.concatenate([digits[0][:4], digits[0][:2]])[:, :8, :8]  # 64 pixels are too few
    with pytest.raises(OutlandError, match=r"digit 0 falls into 64 superpixels"):
        cut(small, digits[1][:6], workers=2)
    with pytest.raises(OutlandError, match=r"digit 500 falls into 64 superpixels"):
        superpixels._segments(500, small)
    with pytest.raises(OutlandError, match="no digits"):
        cut(small[:0], digits[1][:0])


def published_file(folder: Path, graphs: PackedGraphs, training: int) -> Path:
    records = [
        {"x": one.x, "edge_index": one.edge_index, "pos": torch.zeros(75, 2), "y": one.y}
        for one in graphs.to_data_list()
    ]
    path = folder / PUBLISHED.path
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save((records[:training], records[training:]), path)
    return path


def test_the_published_file_is_read(tmp_path, graphs, monkeypatch):
    monkeypatch.setattr(superpixels, "_CHUNK", 4)
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


def test_damaged_idx_files_are_named(tmp_path):
    good = (SAMPLE / "train-labels-idx1-ubyte.gz").read_bytes()
    path = tmp_path / "labels.gz"
    content = gzip.decompress(good)
    for damaged, problem in (
        (good[:-20], "cannot be unpacked"),
        (b"<html>", "cannot be unpacked"),
        (gzip.compress(b"\0\0\x0b" + content[3:]), "does not open as an idx file of 100 bytes"),
        (gzip.compress(content[:-1]), "holds 99 bytes after its header, not 100"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(OutlandError, match=rf"labels\.gz {problem}"):
            read_idx(path, (100,))
    path.write_bytes(good)
    with pytest.raises(OutlandError, match="idx file of 60000 bytes"):
        read_idx(path, (60000,))


@pytest.mark.parametrize("kind", CMNIST.kinds)
def test_parts_share_out_the_digits(plans, kind):
    parts = plans[kind].parts
    assert {name: len(index) for name, index in parts.items()} == SIZES[kind]
    assert torch.cat(list(parts.values())).sort().values.equal(torch.arange(70000))


def test_parts_have_the_published_fingerprints(plans):
    parts = plans["covariate"].parts
    short = {
        name: hashlib.sha256(",".join(map(str, parts[name].tolist())).encode()).hexdigest()[:16]
        for name in ("train", "val", "test")
    }
    assert short == {"train": "b1ac11f0c8bd8d56", "val": "21c98fe2943ebb3f", "test": "ba9ea79f2374545f"}


def test_parts_equal_the_frozen_lists(plans, full_data):
    frozen = json.loads(
        gzip.decompress((full_data.folder / "splits/goodcmnist_color_seed123_indices.json.gz").read_bytes())
    )
    facts = {}
    for kind, plan in plans.items():
        prefix = {"none": "no_shift"}.get(kind, kind)
        for part, index in plan.parts.items():
            facts[f"{prefix}_{part}"] = index
            if kind == "concept":
                facts[f"{prefix}_{part}_color"] = plan.color[index]
    covariate = plans["covariate"]
    facts["covariate_train_env"] = covariate.environment[covariate.parts["train"]]
    assert facts.keys() == frozen.keys()
    for name, values in facts.items():
        assert values.tolist() == frozen[name], name


def test_covariate_colours_go_with_the_environment(plans):
    plan = plans["covariate"]
    train = plan.parts["train"]
    assert torch.bincount(plan.environment[train]).tolist() == [8435, 8374, 8364, 8457, 8370]
    assert plan.color[train].equal(plan.environment[train])
    assert torch.bincount(plan.environment).tolist() == [11200] * 5 + [7000] * 2
    assert [PALETTE[color] for color in plan.color[train].unique().tolist()] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
        (1, 1, 0),
        (0, 1, 1),
    ]
    for part, environment, color in (("val", 5, (1, 0.5, 0.5)), ("test", 6, (1, 0, 1))):
        index = plan.parts[part]
        assert plan.environment[index].unique().tolist() == [environment]
        assert [PALETTE[found] for found in plan.color[index].unique().tolist()] == [color]


def test_concept_colours_follow_the_label_less_and_less(plans):
    plan = plans["concept"]
    tied = plan.color == LABEL
    assert [int(tied[plan.parts[part]].sum()) for part in SIZES["concept"]] == [24975, 5311, 5363, 4299, 0]
    assert torch.bincount(plan.environment).tolist() == [8400] * 5 + [14000] * 2
    assert torch.bincount(plan.environment[plan.parts["train"]]).tolist() == [5907, 5901, 5836, 5957, 5799]
    shares = [tied[plan.environment == environment].double().mean().item() for environment in range(7)]
    assert shares == pytest.approx([0.95, 0.9, 0.85, 0.8, 0.75, 0.3, 0], abs=0.015)
    free = torch.bincount(plan.color[~tied], minlength=10)
    assert (free / free.sum()).tolist() == pytest.approx([0.1] * 10, abs=0.01)


def test_another_seed_gives_other_parts_of_the_same_law(plans):
    other = replay(7)
    for kind, plan in other.items():
        assert {name: len(index) for name, index in plan.parts.items()} == SIZES[kind]
        assert not plan.parts["train"].equal(plans[kind].parts["train"])
    train = other["concept"].parts["train"]
    assert (other["concept"].color[train] == LABEL).double().mean().item() == pytest.approx(0.85, abs=0.01)


def small_set() -> PackedGraphs:
    """As many graphs as digits, of two nodes each: one black, one grey."""
    count = 70000
    return PackedGraphs(
        x=torch.tensor([0.0, 0.5]).repeat(count)[:, None],
        edge_index=torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8).repeat(1, count),
        node_counts=torch.full((count,), 2),
        edge_counts=torch.full((count,), 2),
        y=torch.arange(count) % 10,
        reverse=torch.tensor([1, 0], dtype=torch.uint8).repeat(count),
    )


@pytest.fixture
def builds(monkeypatch) -> list[str]:
    """Grey sets built so far, each a cheap one."""
    built: list[str] = []

    def build(data: DataFolder, kind: str) -> PackedGraphs:
        built.append(kind)
        return small_set()

    monkeypatch.setattr(cmnist, "build_grey", build)
    return built


def test_loading_paints_one_grey_set(tmp_path, builds, plans):
    cache, data = Cache(tmp_path / "cache"), DataFolder(tmp_path)
    for kind in CMNIST.kinds:
        splits = CMNIST().load("color", kind, cache=cache, data=data).check()
        assert splits.schema == CMNIST.schema
        assert splits.source == {
            "dataset": "cmnist",
            "domain": "color",
            "kind": kind,
            "seed": 123,
            "superpixels": "stand-in",
        }
        assert {name: len(index) for name, index in splits.parts.items()} == SIZES[kind]
        graphs, plan = splits.graphs, plans[kind]
        assert graphs.environment.equal(plan.environment)
        color = torch.tensor(PALETTE)[graphs.extra["color"]]
        assert not graphs.x[::2].any()
        assert graphs.x[1::2].equal(0.5 * color)
        assert splits.part("train").environment.unique().tolist() == [0, 1, 2, 3, 4]
        if kind == "none":
            assert graphs.x[1::2].eq(0.5).all()
    assert builds == ["stand-in"]
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [
        cache.path({"name": "cmnist-stand-in", "recipe": 2}).name
    ]


def test_concept_colours_are_the_labels_as_often_as_they_should(plans):
    graphs = paint(small_set(), plans["concept"])
    equal = graphs.extra["color"] == graphs.y
    tied = plans["concept"].color == LABEL
    assert equal[tied].all()
    for environment, bias in enumerate((0.95, 0.9, 0.85, 0.8, 0.75, 0.3, 0.0)):
        share = equal[graphs.environment == environment].double().mean().item()
        assert share == pytest.approx(bias + (1 - bias) / 10, abs=0.015)


def test_the_published_file_is_preferred_and_named(tmp_path, graphs, builds):
    cache, data = Cache(tmp_path / "cache"), DataFolder(tmp_path)
    assert CMNIST().load("color", "none", cache=cache, data=data).source["superpixels"] == "stand-in"
    published_file(tmp_path, graphs.select(torch.arange(3)), 2)
    for _ in range(2):
        assert CMNIST().load("color", "none", cache=cache, data=data).source["superpixels"] == "published"
    published_file(tmp_path, graphs.select(torch.arange(9)), 2)
    CMNIST().load("color", "none", cache=cache, data=data)
    assert builds == ["stand-in", "published", "published"]


def test_the_sample_is_of_the_real_files(full_data, digits):
    images = np.concatenate([read_idx(full_data.fetch(IMAGES[0]), (60000, 28, 28))[:100], _test_images(full_data)])
    assert np.array_equal(images, digits[0])
    labels = read_idx(full_data.fetch(LABELS[0]), (60000,))
    assert np.bincount(labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def _test_images(data: DataFolder) -> np.ndarray:
    return read_idx(data.fetch(IMAGES[1]), (10000, 28, 28))[[*range(98), 8455, 9087]]


def test_missing_files_and_unknown_shifts(tmp_path):
    with pytest.raises(OutlandError, match=r"unknown domain of cmnist 'colour'\. Did you mean 'color'"):
        CMNIST().load("colour", "covariate")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/train-images-idx3-ubyte.gz").write_bytes((SAMPLE / "train-images-idx3-ubyte.gz").read_bytes())
    with pytest.raises(OutlandError, match=r"train-images-idx3-ubyte\.gz is not the published file"):
        CMNIST().load("color", "covariate", cache=Cache(tmp_path / "cache"), data=DataFolder(tmp_path))
