"""TU: six small collections of graphs, each in ten stratified folds.

MUTAG, NCI1, PROTEINS, COLLAB, IMDB-BINARY and IMDB-MULTI of the TU Dortmund collection (Morris et al., "TUDataset",
2020). There is no shift: the graphs are shuffled by the seed and divided into ten folds with equal shares of every
class. Fold *k* is the test part, the next fold validates and the other eight train, so nothing is selected on the test
part, and over the ten folds every graph is tested once and validates once.

Node features are those of the CAL protocol (Sui et al., KDD 2022): the node's label, where there are any, and its
degree, one-hot up to 100. Each is a categorical column, whose embedding table is exactly a linear layer on the one-hot
vector. CAL has the degree as a number besides; the table contains it, but for degrees above 100, which COLLAB and
IMDB-BINARY have. Edge labels and node attributes are not used.
"""

import lzma
import zipfile
import zlib
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import Cache, Features, PackedGraphs, Schema, Splits, Task
from outland.graphs.dataset import Dataset
from outland.graphs.edges import reverse_edges_in_blocks, to_smallest_int
from outland.storage.raw_files import DataFolder, RawFile

FOLDS = 10
MAX_DEGREE = 100  # a larger one counts as this
_MAX_MEMBER = 1 << 30  # bytes of a member; the largest published one has a third of it

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Published:
    """Counts of a collection: its archives are packed in more than one way, so that their content is checked."""

    classes: tuple[int, ...]  # graphs of each class, in order of the label
    nodes: float  # mean of a graph, to two decimals
    edges: float  # mean of a graph, to two decimals: undirected, self-loops left out
    labelled: bool  # whether nodes have labels


class TU(Dataset):
    """One collection; a domain is a fold, and all folds share one cache entry."""

    domains: ClassVar[tuple[str, ...]] = tuple(f"fold{number}" for number in range(FOLDS))
    kinds: ClassVar[tuple[str, ...]] = ("none",)
    published: ClassVar[Published]

    @property
    def file(self) -> RawFile:
        """The archive."""
        archive = f"{self.name.upper()}.zip"
        return RawFile(f"tu/{archive}", None, f"https://www.chrsmrrs.com/graphkerneldatasets/{archive}")

    def load(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The splits with one fold as the test part; another seed gives other folds of the same graphs."""
        self.check(domain, kind)
        key = {"name": f"tu-{self.name}", "recipe": 2}

        def build() -> Splits:
            graphs, features = self.read((data or DataFolder()).fetch(self.file))
            return Splits(graphs, {}, Schema(features, Task("multiclass", len(self.published.classes), "accuracy")))

        entry = (cache or Cache()).load_or_build(key, build)
        parts = fold_parts(entry.graphs.y, self.domains.index(domain), seed)
        versions = entry.source.get("versions", {})
        source = {"dataset": self.name, "domain": domain, "kind": kind, "seed": seed, "versions": versions}
        return Splits(entry.graphs, parts, entry.schema, source)

    def read(self, path: Path) -> tuple[PackedGraphs, Features]:
        """The graphs of an archive and their node features; refuse one that does not hold the published graphs."""
        published = self.published
        graphs, features = read_archive(path, self.name.upper(), published.labelled)
        total = max(len(graphs), 1)
        counts = {
            "graphs": (len(graphs), sum(published.classes)),
            "graphs of each class": (tuple(torch.bincount(graphs.y).tolist()), published.classes),
            "nodes a graph": (f"{len(graphs.x) / total:.2f}", f"{published.nodes:.2f}"),
            "undirected edges a graph": (f"{graphs.reverse.numel() / 2 / total:.2f}", f"{published.edges:.2f}"),
        }
        for quantity, (count, expected) in counts.items():
            if count != expected:
                raise OutlandError(
                    f"{path} does not hold the published {self.name.upper()}: "
                    f"it has {count} {quantity}, not {expected}; replace or remove it"
                )
        return graphs, features


class MUTAG(TU):
    """Which nitroaromatic compounds are mutagenic (Debnath et al. 1991)."""

    name: ClassVar[str] = "mutag"
    summary: ClassVar[str] = "mutagenic or not: nitroaromatic compounds (2 classes, 188 graphs, ten folds)"
    published: ClassVar[Published] = Published((63, 125), 17.93, 19.79, labelled=True)


class NCI1(TU):
    """Which compounds slow the growth of lung cancer cells (Wale et al. 2008)."""

    name: ClassVar[str] = "nci1"
    summary: ClassVar[str] = "active against lung cancer or not: compounds (2 classes, 4,110 graphs, ten folds)"
    published: ClassVar[Published] = Published((2053, 2057), 29.87, 32.30, labelled=True)


class PROTEINS(TU):
    """Which proteins are enzymes (Dobson and Doig 2003; Borgwardt et al. 2005)."""

    name: ClassVar[str] = "proteins"
    summary: ClassVar[str] = "enzyme or not: proteins as secondary structures (2 classes, 1,113 graphs, ten folds)"
    published: ClassVar[Published] = Published((663, 450), 39.06, 72.82, labelled=True)


class COLLAB(TU):
    """A researcher's field from who worked with whom (Yanardag and Vishwanathan 2015)."""

    name: ClassVar[str] = "collab"
    summary: ClassVar[str] = "field of physics of a circle of co-authors (3 classes, 5,000 graphs, ten folds)"
    published: ClassVar[Published] = Published((2600, 775, 1625), 74.49, 2457.22, labelled=False)


class IMDBBinary(TU):
    """Genre from who acted with whom: action or romance (Yanardag and Vishwanathan 2015)."""

    name: ClassVar[str] = "imdb-binary"
    summary: ClassVar[str] = "genre of a circle of actors (2 classes, 1,000 graphs, ten folds)"
    published: ClassVar[Published] = Published((500, 500), 19.77, 96.53, labelled=False)


class IMDBMulti(TU):
    """Genre from who acted with whom: comedy, romance or science fiction (Yanardag and Vishwanathan 2015)."""

    name: ClassVar[str] = "imdb-multi"
    summary: ClassVar[str] = "genre of a circle of actors (3 classes, 1,500 graphs, ten folds)"
    published: ClassVar[Published] = Published((500, 500, 500), 13.00, 65.94, labelled=False)


def fold_parts(y: Tensor, fold: int, seed: int) -> dict[str, Tensor]:
    """Test on one fold, validate on the next, train on the rest; the folds depend on labels and seed alone.

    Shuffled graphs are sorted by class and assigned to the folds in turn, so folds differ by at most one graph, in all
    and in every class.
    """
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(y)))
    order = order[y[order].argsort(stable=True)]
    distance = (torch.arange(len(y)) - fold) % FOLDS
    return {"train": order[distance > 1], "val": order[distance == 1], "test": order[distance == 0]}


def read_archive(path: Path, name: str, labelled: bool) -> tuple[PackedGraphs, Features]:
    """The graphs of an archive in TU layout and their node features; nothing is unpacked to disk.

    Self-loops and repeated edges are left out. Classes and node labels are numbered from 0 in sorted order; the last
    column is the degree.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as problem:
        raise OutlandError(f"{path} is not a whole zip archive ({problem}); replace or remove it") from None
    with archive:
        pairs = _read_integers(archive, path, f"{name}_A.txt", 2)
        indicator = _read_integers(archive, path, f"{name}_graph_indicator.txt")[:, 0]
        labels = _read_integers(archive, path, f"{name}_graph_labels.txt")[:, 0]
        node_labels = _read_integers(archive, path, f"{name}_node_labels.txt")[:, 0] if labelled else None
    owner = indicator.astype(np.int64) - 1
    if (np.diff(owner) < 0).any() or owner[0] < 0 or owner[-1] >= len(labels):
        raise OutlandError(f"{path}: the nodes do not stand in order of the {len(labels)} graphs they belong to")
    if node_labels is not None and len(node_labels) != len(owner):
        raise OutlandError(f"{path} has {len(node_labels)} node labels for {len(owner)} nodes")
    source, target = _edges(path, f"{name}_A.txt", pairs, owner)
    del pairs
    x, vocabulary = _node_features(node_labels, np.bincount(source, minlength=len(owner)))
    node_counts = torch.from_numpy(np.bincount(owner, minlength=len(labels)))
    edge_counts = torch.from_numpy(np.bincount(owner[source], minlength=len(labels)))
    first = (node_counts.cumsum(0) - node_counts).repeat_interleave(edge_counts)
    edge_index = to_smallest_int(torch.from_numpy(np.stack([source, target])) - first)
    graphs = PackedGraphs(
        x=to_smallest_int(torch.from_numpy(x)),
        edge_index=edge_index,
        node_counts=node_counts,
        edge_counts=edge_counts,
        y=torch.from_numpy(np.unique(labels, return_inverse=True)[1]),
        reverse=to_smallest_int(reverse_edges_in_blocks(edge_index, node_counts, edge_counts)),
    )
    return graphs, Features(len(vocabulary), vocabulary)


def _node_features(labels: npt.NDArray[np.int32] | None, degree: Integers) -> tuple[Integers, tuple[int, ...]]:
    """Label, if any, and degree of each node as categories `[N, 2]` or `[N, 1]`, and how many there are of each."""
    columns, vocabulary = [np.minimum(degree, MAX_DEGREE)], [MAX_DEGREE + 1]
    if labels is not None:
        names, numbers = np.unique(labels, return_inverse=True)
        columns, vocabulary = [numbers, *columns], [len(names), *vocabulary]
    return np.stack(columns, 1), tuple(vocabulary)


def _read_integers(archive: zipfile.ZipFile, path: Path, name: str, columns: int = 1) -> npt.NDArray[np.int32]:
    """The whole numbers `[lines, columns]` of a member, in any folder of the archive."""
    members = [member for member in archive.infolist() if PurePosixPath(member.filename).name == name]
    if len(members) != 1:
        raise OutlandError(f"{path} holds {len(members)} files {name}, not one; replace or remove it")
    (member,) = members
    if member.file_size > _MAX_MEMBER:
        raise OutlandError(f"{path}: {name} would unpack to {member.file_size:,} bytes; replace or remove the archive")
    if not member.file_size:
        raise OutlandError(f"{path}: {name} is empty; replace or remove the archive")
    try:
        # Through TextIOWrapper: a member of a zip archive gives single lines four times as slowly.
        with archive.open(member) as stream, TextIOWrapper(stream, "ascii") as lines:
            table = np.loadtxt(lines, dtype=np.int32, delimiter=",", comments=None, ndmin=2)
    except ValueError as problem:
        raise OutlandError(f"{path}: {name} cannot be read: {problem}") from None
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as problem:
        raise OutlandError(f"{path}: {name} is damaged ({problem}); replace or remove the archive") from None
    if table.shape[1] != columns:
        raise OutlandError(f"{path}: {name} has {table.shape[1]} columns, not {columns}")
    return table


def _edges(path: Path, name: str, pairs: npt.NDArray[np.int32], owner: Integers) -> tuple[Integers, Integers]:
    """Sources and targets from 0, sorted, without repeated edges and self-loops."""
    nodes = len(owner)
    source, target = pairs.T.astype(np.int64) - 1
    outside = (np.minimum(source, target) < 0) | (np.maximum(source, target) >= nodes)
    if outside.any():
        raise OutlandError(f"{path}: {name}, line {outside.argmax() + 1}: there are only the nodes 1 to {nodes}")
    across = owner[source] != owner[target]
    if across.any():
        raise OutlandError(f"{path}: {name}, line {across.argmax() + 1}: the edge joins two graphs")
    keys = (source * nodes + target)[source != target]
    keys.sort()  # np.unique would hash: minutes for the edges of COLLAB, not seconds
    source, target = np.divmod(keys[np.diff(keys, prepend=-1) > 0], nodes)
    return source, target
