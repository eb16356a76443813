import shutil
import zipfile
from pathlib import Path

import pytest
import torch

from outland.datasets.tu import MUTAG, NCI1, PROTEINS, TU, IMDBBinary, IMDBMulti, fold_parts, read_archive
from outland.errors import OutlandError
from outland.graphs import Cache, Features, Task
from outland.graphs.cache import installed_versions
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.storage.raw_files import DataFolder, RawFile
from outland.training import Trainer, TrainSettings
from tests.conftest import SAMPLES

SAMPLE = SAMPLES / "tu-sample" / "MUTAG.zip"

# Two graphs, a triangle and a pair. The list names 1-2 twice in both directions and has two self-loops.
TINY = {
    "X_A.txt": "2, 1\n1, 2\n1, 1\n1, 2\n2, 1\n3, 1\n1, 3\n2,3\n3,2\n5, 4\n4, 5\n4, 4\n",
    "X_graph_indicator.txt": "1\n1\n1\n2\n2\n",
    "X_graph_labels.txt": "1\n-1\n",
    "X_node_labels.txt": "7\n3\n7\n9\n3\n",
    "X_edge_labels.txt": "0\n" * 12,
}


@pytest.fixture
def sample(tmp_path) -> DataFolder:
    (tmp_path / "tu").mkdir()
    shutil.copy(SAMPLE, tmp_path / "tu")
    return DataFolder(tmp_path)


@pytest.fixture(scope="session")
def mutag(cache, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mutag")
    (folder / "tu").mkdir()
    shutil.copy(SAMPLE, folder / "tu")

    def load(domain: str = "fold0", seed: int = 123):
        return MUTAG().load(domain, "none", seed, cache, DataFolder(folder))

    return load


def packed(folder: Path, without: tuple[str, ...] = (), prefix: str = "X//", method=zipfile.ZIP_DEFLATED, **members):
    path = folder / "X.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, text in {**TINY, **{f"X_{key}.txt": text for key, text in members.items()}}.items():
            if name not in without:
                archive.writestr(prefix + name, text)
    return path


def edges_of(graphs, index: int) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in graphs.to_data_list()[index].edge_index.T.tolist()]


def test_mutag_is_the_published_one(mutag):
    splits = mutag().check()
    graphs = splits.graphs
    assert len(graphs) == 188
    assert torch.bincount(graphs.y).tolist() == [63, 125]
    assert round(graphs.node_counts.double().mean().item(), 2) == 17.93
    assert round(graphs.edge_counts.double().mean().item() / 2, 2) == 19.79
    assert splits.schema.node == Features(2, (7, 101))
    assert splits.schema.task == Task("multiclass", 2, "accuracy")
    assert (splits.schema.edge, splits.schema.environments) == (None, 0)
    source = {"dataset": "mutag", "domain": "fold0", "kind": "none", "seed": 123}
    assert splits.source == {**source, "versions": installed_versions()}
    # the first graph: its label, its 17 atoms (14 carbon, one nitrogen, two oxygen) and its first bonds
    assert int(graphs.y[0]) == 1
    assert graphs.x[: int(graphs.node_counts[0]), 0].tolist() == [0] * 14 + [1, 2, 2]
    assert edges_of(graphs, 0)[:6] == [(0, 1), (0, 5), (1, 0), (1, 2), (2, 1), (2, 3)]


def test_every_edge_stands_both_ways_in_order(mutag):
    graphs = mutag().graphs
    for data in graphs.to_data_list():
        pairs = [tuple(pair) for pair in data.edge_index.T.tolist()]
        assert pairs == sorted(set(pairs))
        assert all(u != v and (v, u) in set(pairs) for u, v in pairs)
    positions = torch.arange(len(graphs.reverse)) - graphs.edge_offsets.repeat_interleave(graphs.edge_counts)
    assert (graphs.reverse != positions).all()


def test_folds_are_stratified_disjoint_and_cover_everything(mutag):
    folds = {"val": [], "test": []}
    for domain in MUTAG.domains:
        splits = mutag(domain)
        index = torch.cat([splits[part] for part in ("train", "val", "test")])
        assert index.sort().values.equal(torch.arange(188))
        assert not set(splits["val"].tolist()) & set(splits["test"].tolist())
        for part in ("val", "test"):
            assert len(splits[part]) in {18, 19}
            counts = torch.bincount(splits.graphs.y[splits[part]], minlength=2)
            assert (counts - torch.tensor([6.3, 12.5])).abs().max() < 1
        for part, indices in folds.items():
            indices.append(splits[part])
    for indices in folds.values():  # every graph is tested once and validates once
        assert torch.cat(indices).sort().values.equal(torch.arange(188))


def test_seed_decides_the_folds(mutag):
    first, again, other = mutag("fold3", 1), mutag("fold3", 1), mutag("fold3", 2)
    for part in ("train", "val", "test"):
        assert first[part].equal(again[part])
        assert set(first[part].tolist()) != set(other[part].tolist())


@pytest.mark.parametrize("counts", [(10, 10), (11, 9, 25), (3, 97)])
def test_folds_differ_by_one_graph_at_most(counts):
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    folds = [fold_parts(y, fold, 0)["test"] for fold in range(10)]
    sizes = [len(fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    for label in range(len(counts)):
        counts_of_label = [int((y[fold] == label).sum()) for fold in folds]
        assert max(counts_of_label) - min(counts_of_label) <= 1


def test_ten_folds_share_one_cache_entry(sample, tmp_path):
    cache = Cache(tmp_path / "cache")
    MUTAG().load("fold0", "none", 1, cache, sample)
    (tmp_path / "tu" / "MUTAG.zip").unlink()
    MUTAG().load("fold9", "none", 2, cache, sample)
    entries = [path for path in cache.folder.iterdir() if path.is_dir()]
    assert [path.name.rpartition("-")[0] for path in entries] == ["tu-mutag"]


@pytest.mark.parametrize("kind", [MUTAG, NCI1, PROTEINS, IMDBBinary, IMDBMulti], ids=lambda kind: kind.name)
def test_full_archives_are_the_published_ones(kind: type[TU], tmp_path, data):
    """COLLAB is checked in the same way whenever it is loaded; it takes too long for a test."""
    if not data.has(kind().file):
        pytest.skip(f"{kind().file.path} is not in the folder that OUTLAND_DATA names")
    splits = kind().load("fold4", "none", cache=Cache(tmp_path), data=data).check()
    labels = {"mutag": (7,), "nci1": (37,), "proteins": (3,), "imdb-binary": (), "imdb-multi": ()}
    assert splits.schema.node.vocabulary == (*labels[kind.name], 101)
    degrees = {"mutag": 4, "nci1": 4, "proteins": 25, "imdb-binary": 100, "imdb-multi": 88}
    assert int(splits.graphs.x[:, -1].max()) == degrees[kind.name]
    assert sum(len(index) for index in splits.parts.values()) == sum(kind.published.classes)


def test_archive_is_cleaned_and_renumbered(tmp_path):
    graphs, features = read_archive(packed(tmp_path), "X", labelled=True)
    assert edges_of(graphs, 0) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert edges_of(graphs, 1) == [(0, 1), (1, 0)]
    assert graphs.reverse.tolist() == [2, 4, 0, 5, 1, 3, 1, 0]
    assert graphs.y.tolist() == [1, 0]
    assert graphs.x[:, 0].tolist() == [1, 0, 1, 2, 0]
    assert graphs.x[:, 1].tolist() == [2, 2, 2, 1, 1]  # degrees, without self-loops and repeated edges
    assert features == Features(2, (3, 101))


def test_degree_is_the_category_where_nodes_have_no_labels(tmp_path):
    graphs, features = read_archive(packed(tmp_path, without=("X_node_labels.txt",)), "X", labelled=False)
    assert graphs.x[:, 0].tolist() == [2, 2, 2, 1, 1]
    assert features == Features(1, (101,))


def test_a_degree_above_a_hundred_counts_as_a_hundred(tmp_path):
    pairs = "".join(f"1, {node}\n{node}, 1\n" for node in range(2, 122))
    members = {"A": pairs, "graph_indicator": "1\n" * 121, "graph_labels": "1\n", "node_labels": "0\n" * 121}
    graphs, features = read_archive(packed(tmp_path, **members), "X", labelled=False)
    assert graphs.x[:, 0].tolist() == [100] + [1] * 120
    assert features == Features(1, (101,))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("prefix", ["", "X/", "X//", "deep/er/"])
def test_any_packing_will_do(tmp_path, method, prefix):
    graphs, _ = read_archive(packed(tmp_path, prefix=prefix, method=method), "X", labelled=True)
    assert graphs.edge_counts.tolist() == [6, 2]


def test_path_out_of_the_archive_is_harmless(tmp_path):
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    path = packed(inside)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../evil", "bad")
        archive.writestr("/evil", "bad")
    before = sorted(tmp_path.rglob("*"))
    graphs, _ = read_archive(path, "X", labelled=True)
    assert len(graphs) == 2
    assert sorted(tmp_path.rglob("*")) == before
    read_archive(packed(inside, prefix="../../"), "X", labelled=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("missing", [name for name in TINY if name != "X_edge_labels.txt"])
def test_missing_member_is_named(tmp_path, missing):
    path = packed(tmp_path, without=(missing,))
    with pytest.raises(OutlandError, match=rf"X\.zip holds 0 files {missing}, not one"):
        read_archive(path, "X", labelled=True)


def test_member_that_is_there_twice_is_refused(tmp_path):
    path = packed(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("copy/X_A.txt", "1, 2\n")
    with pytest.raises(OutlandError, match=r"holds 2 files X_A\.txt"):
        read_archive(path, "X", labelled=True)


@pytest.mark.parametrize(
    ("member", "text", "message"),
    [
        ("A", "", r"X_A\.txt is empty"),
        (
            "A",
            "1, 2\n2, one\n",
            r"X_A\.txt cannot be read: could not convert string ' one' to int32 at row 1, column 2",
        ),
        ("A", "1, 2\n2\n", r"X_A\.txt cannot be read: the number of columns changed from 2 to 1"),
        ("A", "1\n2\n", r"X_A\.txt has 1 columns, not 2"),
        ("A", "1, 2\n2, 6\n", r"X_A\.txt, line 2: there are only the nodes 1 to 5"),
        ("A", "1, 2\n0, 1\n", r"X_A\.txt, line 2: there are only the nodes 1 to 5"),
        ("A", "1, 2\n2, 4\n", r"X_A\.txt, line 2: the edge joins two graphs"),
        ("A", b"1, \xff\n", r"X_A\.txt cannot be read: .*decode"),
        ("graph_labels", "1\n", r"do not stand in order of the 1 graphs"),
        ("graph_indicator", "2\n2\n2\n1\n1\n", r"do not stand in order of the 2 graphs"),
        ("graph_indicator", "0\n1\n1\n2\n2\n", r"do not stand in order of the 2 graphs"),
        ("node_labels", "1\n2\n", r"has 2 node labels for 5 nodes"),
    ],
)
def test_bad_member_is_refused_in_a_sentence(tmp_path, member, text, message):
    with pytest.raises(OutlandError, match=message):
        read_archive(packed(tmp_path, **{member: text}), "X", labelled=True)


@pytest.mark.parametrize("keep", [0, 10, 1000, 24000])
def test_truncated_archive_is_refused(sample, tmp_path, keep):
    path = tmp_path / "tu" / "MUTAG.zip"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(OutlandError, match=r"MUTAG\.zip is not a whole zip archive .* replace or remove it"):
        MUTAG().load("fold0", "none", cache=Cache(tmp_path / "cache"), data=sample)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_within_an_archive_is_refused(tmp_path, method):
    path = packed(tmp_path, prefix="", method=method, A=TINY["X_A.txt"] * 200)
    content = bytearray(path.read_bytes())
    for offset in range(60, 75):
        content[offset] ^= 0x11
    path.write_bytes(content)
    with pytest.raises(OutlandError, match=r"X\.zip: X_A\.txt (is damaged|cannot be read)"):
        read_archive(path, "X", labelled=True)


def test_other_content_under_the_same_name_is_refused(tmp_path):
    folder = tmp_path / "tu"
    folder.mkdir()
    with zipfile.ZipFile(SAMPLE) as archive:
        members = {Path(name).name: archive.read(name) for name in archive.namelist()}

    def load():
        with zipfile.ZipFile(folder / "MUTAG.zip", "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        return MUTAG().load("fold0", "none", cache=Cache(tmp_path / "cache"), data=DataFolder(tmp_path))

    members["MUTAG_graph_labels.txt"] = members["MUTAG_graph_labels.txt"].replace(b"-1", b"1", 1)
    with pytest.raises(OutlandError, match=r"it has \(62, 126\) graphs of each class, not \(63, 125\); replace"):
        load()
    members["MUTAG_graph_labels.txt"] += b"1\n"
    with pytest.raises(OutlandError, match=r"MUTAG\.zip does not hold the published MUTAG: it has 189 graphs, not 188"):
        load()
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_missing_edges_are_noticed(tmp_path):
    with zipfile.ZipFile(SAMPLE) as archive, zipfile.ZipFile(tmp_path / "MUTAG.zip", "w") as copy:
        for name in archive.namelist():
            text = archive.read(name)
            if name.endswith("_A.txt"):
                text = b"".join(line for i, line in enumerate(text.splitlines(True)) if i % 2)
            copy.writestr(name, text)
    with pytest.raises(OutlandError, match=r"it has 9\.90 undirected edges a graph, not 19\.79"):
        MUTAG().read(tmp_path / "MUTAG.zip")


def test_the_archive_has_a_public_home():
    home = "https://www.chrsmrrs.com/graphkerneldatasets"
    assert IMDBBinary().file == RawFile("tu/IMDB-BINARY.zip", None, f"{home}/IMDB-BINARY.zip")


def test_unknown_fold():
    with pytest.raises(OutlandError, match=r"unknown domain of mutag 'fold10'\. Did you mean 'fold"):
        MUTAG().load("fold10", "none")
    with pytest.raises(OutlandError, match="Valid: none"):
        MUTAG().load("fold1", "covariate")


@pytest.mark.parametrize("name", ["erm", "aia"])
def test_one_epoch(mutag, name):
    splits = mutag("fold7").check()
    method = build_method(name, splits.schema, BackboneSettings(width=8), method_settings(name, {}))
    trainer = Trainer(method, splits, TrainSettings(epochs=1))
    trainer.fit()
    assert set(trainer.curves[0]) == {"epoch", "loss", "diagnostics", "val", "test"}
    assert 0 <= trainer.curves[0]["test"]["accuracy"] <= 1
