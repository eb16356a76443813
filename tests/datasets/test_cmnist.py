import gzip
import hashlib
import json

import numpy as np
import pytest
import torch

from outland.datasets import DataFolder, cmnist
from outland.datasets.cmnist import (
    CMNIST,
    IMAGES,
    LABEL,
    LABELS,
    PALETTE,
    Assignment,
    colorize,
    draw_assignments,
    read_idx,
)
from outland.errors import OutlandError
from outland.graphs import Cache, PackedGraphs
from outland.graphs.cache import installed_versions
from outland.graphs.portable import export_entry, import_entry
from tests.datasets.cases import MNIST, published_file

SIZES = {
    "covariate": {"train": 42000, "id_val": 7000, "id_test": 7000, "val": 7000, "test": 7000},
    "concept": {"train": 29400, "id_val": 6300, "id_test": 6300, "val": 14000, "test": 14000},
    "none": {"train": 42000, "val": 14000, "test": 14000},
}


@pytest.fixture(scope="module")
def full_data(data) -> DataFolder:
    if not (data.folder / "mnist").exists() or not (data.folder / "splits").exists():
        pytest.skip("mnist/ and splits/ are not in the folder that OUTLAND_DATA names")
    return data


@pytest.fixture(scope="module")
def assignments() -> dict[str, Assignment]:
    return draw_assignments(123)


def test_damaged_idx_files_are_named(tmp_path):
    good = (MNIST / "train-labels-idx1-ubyte.gz").read_bytes()
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
def test_parts_share_out_the_digits(assignments, kind):
    parts = assignments[kind].parts
    assert {name: len(index) for name, index in parts.items()} == SIZES[kind]
    assert torch.cat(list(parts.values())).sort().values.equal(torch.arange(70000))


def test_parts_have_the_published_fingerprints(assignments):
    parts = assignments["covariate"].parts
    short = {
        name: hashlib.sha256(",".join(map(str, parts[name].tolist())).encode()).hexdigest()[:16]
        for name in ("train", "val", "test")
    }
    assert short == {"train": "b1ac11f0c8bd8d56", "val": "21c98fe2943ebb3f", "test": "ba9ea79f2374545f"}


def test_parts_equal_the_frozen_lists(assignments, full_data):
    frozen = json.loads(
        gzip.decompress((full_data.folder / "splits/goodcmnist_color_seed123_indices.json.gz").read_bytes())
    )
    facts = {}
    for kind, assignment in assignments.items():
        prefix = {"none": "no_shift"}.get(kind, kind)
        for part, index in assignment.parts.items():
            facts[f"{prefix}_{part}"] = index
            if kind == "concept":
                facts[f"{prefix}_{part}_color"] = assignment.color[index]
    covariate = assignments["covariate"]
    facts["covariate_train_env"] = covariate.environment[covariate.parts["train"]]
    assert facts.keys() == frozen.keys()
    for name, values in facts.items():
        assert values.tolist() == frozen[name], name


def test_covariate_colours_go_with_the_environment(assignments):
    assignment = assignments["covariate"]
    train = assignment.parts["train"]
    assert torch.bincount(assignment.environment[train]).tolist() == [8435, 8374, 8364, 8457, 8370]
    assert assignment.color[train].equal(assignment.environment[train])
    assert torch.bincount(assignment.environment).tolist() == [11200] * 5 + [7000] * 2
    assert [PALETTE[color] for color in assignment.color[train].unique().tolist()] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 1),
        (1, 1, 0),
        (0, 1, 1),
    ]
    for part, environment, color in (("val", 5, (1, 0.5, 0.5)), ("test", 6, (1, 0, 1))):
        index = assignment.parts[part]
        assert assignment.environment[index].unique().tolist() == [environment]
        assert [PALETTE[row] for row in assignment.color[index].unique().tolist()] == [color]


def test_concept_colours_follow_the_label_less_and_less(assignments):
    assignment = assignments["concept"]
    tied = assignment.color == LABEL
    assert [int(tied[assignment.parts[part]].sum()) for part in SIZES["concept"]] == [24975, 5311, 5363, 4299, 0]
    assert torch.bincount(assignment.environment).tolist() == [8400] * 5 + [14000] * 2
    assert torch.bincount(assignment.environment[assignment.parts["train"]]).tolist() == [5907, 5901, 5836, 5957, 5799]
    shares = [tied[assignment.environment == environment].double().mean().item() for environment in range(7)]
    assert shares == pytest.approx([0.95, 0.9, 0.85, 0.8, 0.75, 0.3, 0], abs=0.015)
    free = torch.bincount(assignment.color[~tied], minlength=10)
    assert (free / free.sum()).tolist() == pytest.approx([0.1] * 10, abs=0.01)


def test_another_seed_gives_other_parts_of_the_same_law(assignments):
    other = draw_assignments(7)
    for kind, assignment in other.items():
        assert {name: len(index) for name, index in assignment.parts.items()} == SIZES[kind]
        assert not assignment.parts["train"].equal(assignments[kind].parts["train"])
    train = other["concept"].parts["train"]
    assert (other["concept"].color[train] == LABEL).double().mean().item() == pytest.approx(0.85, abs=0.01)


def small_set() -> PackedGraphs:
    """As many graphs as digits, of two nodes each: one black, one gray."""
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
    """Gray sets built so far, each a cheap one."""
    built: list[str] = []

    def build(data: DataFolder, kind: str) -> PackedGraphs:
        built.append(kind)
        return small_set()

    monkeypatch.setattr(cmnist, "build_gray", build)
    return built


def test_loading_paints_one_gray_set(tmp_path, builds, assignments):
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
            "versions": installed_versions(),
        }
        assert {name: len(index) for name, index in splits.parts.items()} == SIZES[kind]
        graphs, assignment = splits.graphs, assignments[kind]
        assert graphs.environment.equal(assignment.environment)
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


def test_published_superpixels_in_the_cache_need_no_file(tmp_path, builds):
    here, there = Cache(tmp_path / "here"), Cache(tmp_path / "there")
    path = tmp_path / cmnist.PUBLISHED.path
    path.parent.mkdir()
    path.write_bytes(b"its content does not matter here")
    CMNIST().load("color", "covariate", cache=here, data=DataFolder(tmp_path))
    assert builds == ["published"]
    import_entry(there, export_entry(*here.loaded, tmp_path / "out").folder)
    splits = CMNIST().load("color", "concept", cache=there, data=DataFolder(tmp_path / "nothing"))
    assert splits.source["superpixels"] == "published"
    assert builds == ["published"]


def test_concept_colours_are_the_labels_as_often_as_they_should(assignments):
    graphs = colorize(small_set(), assignments["concept"])
    equal = graphs.extra["color"] == graphs.y
    tied = assignments["concept"].color == LABEL
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
    (tmp_path / "mnist/train-images-idx3-ubyte.gz").write_bytes((MNIST / "train-images-idx3-ubyte.gz").read_bytes())
    with pytest.raises(OutlandError, match=r"train-images-idx3-ubyte\.gz is not the published file"):
        CMNIST().load("color", "covariate", cache=Cache(tmp_path / "cache"), data=DataFolder(tmp_path))
