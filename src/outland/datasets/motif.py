"""Motif: a base graph that should not matter, joined to a motif that decides the label.

GOOD-Motif (Gui et al., NeurIPS 2022), after Spurious-Motif (Wu et al., ICLR 2022). Every graph is a base (wheel,
tree, ladder, star, path) with one motif (house, cycle, crane) hung on it by one edge, a few noise edges, and a
label that names the motif nine times in ten and is redrawn at random otherwise. Under *covariate* shift, validation
and test have bases (or sizes) never trained on; under *concept* shift, the base (or size) goes with the label in
training and not in test.

Random numbers are drawn in the published order, so seed 123 gives the published graphs, bit for bit.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from outland.datasets.motif_shapes import MOTIF_SIZE, Pair, template
from outland.graphs import Cache, Features, PackedGraphs, Schema, Splits, Task
from outland.graphs.dataset import Dataset
from outland.graphs.edges import reverse_edges, to_smallest_int
from outland.progress import track
from outland.storage.raw_files import DataFolder
from outland.tables.splitting import Parts

_COVARIATE_WIDTHS = (6, 10, 15, 30, 70)
_CONCEPT_WIDTHS = (10, 40, 70)
_BIASES = (0.99, 0.97, 0.95, 0.3, 0.0)  # of the three training environments, validation, test
_CONCEPT_BLOCK = 6000

# domain/kind/part -> fingerprints of graphs and labels of GOOD's generator with seed 123, where they are published
PUBLISHED = {
    "base/covariate/train": ("a943cdb714c68dd6", "a102a3c10d5c6293"),
    "base/covariate/id_val": ("2edcba8e6d015df2", "fdb022930508a9dd"),
    "base/covariate/id_test": ("2c435d2a520ef06d", "13e17f0da7027341"),
    "base/covariate/val": ("ed0c7e0ac5e864a5", "38df6234b9e7f2b4"),
    "base/covariate/test": ("64bbdec89b1a382f", "e8159c1b30c65de5"),
    "base/concept/train": ("28fceee68c213a9b", "b7b3b946a3973bb4"),
    "base/concept/val": ("7999e35fd4ba7793", "7f2a08693c96b820"),
    "base/concept/test": ("c216de512525b850", "733a5668edfaf54f"),
    "base/none/train": ("17af9485b1c8e4b3", "115f483917e5032e"),
    "size/covariate/train": ("6b9d1cc839346e98", "2bb1619bbe59fd63"),
    "size/covariate/id_val": ("c02ef1fd28e9b477", "dc775c4814098aa2"),
    "size/covariate/id_test": ("7eca960c1dc1d5c7", "636da9d2a2c00ef7"),
    "size/covariate/val": ("99d2465deb6c8f85", "96e3d4ed4282eca2"),
    "size/covariate/test": ("57a1b4f017313fd6", "5dbbbc5f97817d75"),
    "size/concept/train": ("989af0a8cdab55fe", "3f9563a160a404d0"),
    "size/concept/val": ("9069e87bd46ff52f", "8015bf834861621e"),
    "size/concept/test": ("0c979a8c75db189f", "5eee518a47cc82aa"),
    "size/none/train": ("17af9485b1c8e4b3", "115f483917e5032e"),
}


class Motif(Dataset):
    """GOOD-Motif under a shift of base or of size."""

    name: ClassVar[str] = "motif"
    summary: ClassVar[str] = "base graph + motif; the motif decides the label (3 classes, 30,000 graphs)"
    domains: ClassVar[tuple[str, ...]] = ("base", "size")
    kinds: ClassVar[tuple[str, ...]] = ("covariate", "concept", "none")
    # OOD validation touches its ceiling within a few epochs, so early choices are noise: see docs/protocol.md.
    fingerprints: ClassVar[Mapping[str, tuple[str, str]]] = PUBLISHED
    schema: ClassVar[Schema] = Schema(Features(1), Task("multiclass", 3, "accuracy"), environments=3)

    def load(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The splits of one domain and kind of shift; another seed gives other graphs of the same distribution."""
        self.check(domain, kind)
        cache = cache or Cache()
        keys = {each: {"name": f"motif-{domain}-{each}", "seed": seed, "recipe": 2} for each in self.kinds}

        def build() -> Splits:
            splits: dict[str, Splits] = {}
            for each, drawn in generate(domain, seed):
                if each == kind:
                    splits[each] = drawn
                else:
                    cache.store(keys[each], drawn)
            return splits[kind]

        return cache.load_or_build(keys[kind], build, lock_name=f"motif-{domain}-{seed}")


@dataclass
class _Drawn:
    """Graphs in the order they are drawn: base, width, motif, anchor, label and environment of each; noise edges."""

    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    noise: list[list[Pair]] = field(default_factory=list)


class _Sampler:
    """The two random generators, and the draws of a graph whose base, width and motif are given."""

    def __init__(self, seed: int) -> None:
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)

    def add_graph(self, drawn: _Drawn, base: int, width: int, motif: int, environment: int) -> None:
        """Draw the anchor of the motif, the noise edges and the label, and add the graph to `drawn`."""
        shape = template(base, width, motif)
        anchor = int(self.numpy.permutation(shape.base_size)[0])
        joint = (anchor, shape.base_size)
        noise: list[Pair] = []
        attempts = (len(shape.edges) + 1) // 20
        if attempts:
            noise = self._noise(shape.size, {*shape.edges, joint}, shape.free, attempts)
        label = self.python.randint(0, 2) if self.python.random() < 0.1 else motif
        drawn.rows.append((base, width, motif, anchor, label, environment))
        drawn.noise.append(noise)

    def _noise(self, size: int, edges: set[Pair], free: tuple[bool, ...], attempts: int) -> list[Pair]:
        randint, added = self.numpy.randint, []
        for _ in range(attempts):
            while True:
                u, v = int(randint(0, size)), int(randint(0, size))
                pair = (u, v) if u < v else (v, u)
                if u != v and pair not in edges:
                    break
            if free[u] or free[v]:
                edges.add(pair)
                added.append(pair)
        return added

    def offset(self) -> int:
        return int(self.numpy.randint(-5, 6))

    def base(self) -> int:
        return int(5 * self.numpy.random_sample())

    def permutation(self, count: int) -> Tensor:
        order = list(range(count))
        self.python.shuffle(order)
        return torch.tensor(order)


def generate(domain: str, seed: int) -> Iterator[tuple[str, Splits]]:
    """Yield (kind, splits) of one domain, drawn in the published order: none, covariate, concept."""
    sampler = _Sampler(seed)
    covariate = _base_covariate if domain == "base" else _size_covariate
    concept = _base_concept if domain == "base" else _size_concept
    for kind, draw in (("none", _no_shift), ("covariate", covariate), ("concept", concept)):
        drawn, parts = draw(sampler, f"Motif {domain}, {kind} shift")
        source = {"dataset": "motif", "domain": domain, "kind": kind, "seed": seed}
        yield kind, Splits(_pack(drawn), parts, Motif.schema, source)


def _no_shift(sampler: _Sampler, title: str) -> tuple[_Drawn, Parts]:
    drawn = _Drawn()
    for index in track(range(30000), title, 30000):
        base = sampler.base()
        sampler.add_graph(drawn, base, 10 + sampler.offset(), index // 10000, 0)
    order = sampler.permutation(30000)
    environments = {index: position // 6000 for position, index in enumerate(order[:18000].tolist())}
    drawn.rows = [(*row[:5], environments.get(index, 0)) for index, row in enumerate(drawn.rows)]
    return drawn, {"train": order[:18000], "val": order[18000:24000], "test": order[24000:]}


def _covariate(sampler: _Sampler, title: str, draw: Callable[[_Drawn, str], None]) -> tuple[_Drawn, Parts]:
    drawn = _Drawn()
    parts = ["train"] * 24000 + ["val"] * 3000 + ["test"] * 3000
    for part in track(parts, title, len(parts)):
        draw(drawn, part)
    order = sampler.permutation(24000)
    return drawn, {
        "train": order[:18000],
        "id_val": order[18000:21000],
        "id_test": order[21000:],
        "val": torch.arange(24000, 27000),
        "test": torch.arange(27000, 30000),
    }


def _base_covariate(sampler: _Sampler, title: str) -> tuple[_Drawn, Parts]:
    randint = sampler.python.randint

    def draw(drawn: _Drawn, part: str) -> None:
        motif = randint(0, 2)
        base = randint(0, 2) if part == "train" else {"val": 3, "test": 4}[part]
        sampler.add_graph(drawn, base, 10 + sampler.offset(), motif, base)

    return _covariate(sampler, title, draw)


def _size_covariate(sampler: _Sampler, title: str) -> tuple[_Drawn, Parts]:
    randint = sampler.python.randint

    def draw(drawn: _Drawn, part: str) -> None:
        size = randint(0, 2) if part == "train" else {"val": 3, "test": 4}[part]
        base, motif = randint(0, 4), randint(0, 2)
        sampler.add_graph(drawn, base, _COVARIATE_WIDTHS[size] + randint(-5, 5), motif, size)

    return _covariate(sampler, title, draw)


def _concept(sampler: _Sampler, title: str, draw: Callable[[_Drawn, int, float], None]) -> tuple[_Drawn, Parts]:
    drawn = _Drawn()
    total = len(_BIASES) * _CONCEPT_BLOCK
    for index in track(range(total), title, total):
        block = index // _CONCEPT_BLOCK
        draw(drawn, block, _BIASES[block])
    order = sampler.permutation(18000)
    return drawn, {
        "train": order[:12600],
        "id_val": order[12600:15300],
        "id_test": order[15300:],
        "val": torch.arange(18000, 24000),
        "test": torch.arange(24000, 30000),
    }


def _base_concept(sampler: _Sampler, title: str) -> tuple[_Drawn, Parts]:
    python = sampler.python

    def draw(drawn: _Drawn, environment: int, bias: float) -> None:
        motif = python.randint(0, 2)
        width = 10 + sampler.offset()
        base = motif if python.random() < bias else python.randint(0, 2)
        sampler.add_graph(drawn, base, width, motif, environment)

    return _concept(sampler, title, draw)


def _size_concept(sampler: _Sampler, title: str) -> tuple[_Drawn, Parts]:
    python = sampler.python

    def draw(drawn: _Drawn, environment: int, bias: float) -> None:
        base = sampler.base()
        motif = python.randint(0, 2)
        size = motif if python.random() < bias else python.randint(0, 2)
        sampler.add_graph(drawn, base, _CONCEPT_WIDTHS[size] + python.randint(-5, 5), motif, environment)

    return _concept(sampler, title, draw)


def _pack(drawn: _Drawn) -> PackedGraphs:
    """The graphs packed: edges in both directions, sorted by source, then target."""
    shapes = [template(base, width, motif) for base, width, motif, *_ in drawn.rows]
    base, _, motif, anchor, label, environment = np.array(drawn.rows).T
    nodes = np.array([shape.size for shape in shapes])
    base_size = nodes - MOTIF_SIZE
    noise_counts = np.array([len(pairs) for pairs in drawn.noise])
    noise = np.array([pair for pairs in drawn.noise for pair in pairs], dtype=np.int32).reshape(-1, 2)
    joints = np.stack([anchor, base_size], axis=1).astype(np.int32)
    graph = np.arange(len(shapes))
    owner = np.concatenate(
        [np.repeat(graph, [len(shape.array) for shape in shapes]), graph, np.repeat(graph, noise_counts)]
    )
    pairs = np.concatenate([*(shape.array for shape in shapes), joints, noise])
    owner = np.concatenate([owner, owner])
    pairs = np.concatenate([pairs, pairs[:, ::-1]])
    largest = int(nodes.max())
    order = np.argsort((owner * largest + pairs[:, 0]) * largest + pairs[:, 1], kind="stable")
    owner, pairs = owner[order], pairs[order]
    edge_index = torch.from_numpy(np.ascontiguousarray(pairs.T))
    node_counts = torch.from_numpy(nodes)
    edge_counts = torch.from_numpy(np.bincount(owner, minlength=len(shapes)))
    base_counts = torch.from_numpy(base_size)
    first = (node_counts.cumsum(0) - node_counts).repeat_interleave(node_counts)
    return PackedGraphs(
        x=torch.ones(int(node_counts.sum()), 1),
        edge_index=to_smallest_int(edge_index),
        node_counts=node_counts,
        edge_counts=edge_counts,
        y=torch.from_numpy(label.copy()),
        reverse=to_smallest_int(reverse_edges(edge_index, node_counts, edge_counts)),
        environment=torch.from_numpy(environment.copy()),
        node_truth=torch.arange(len(first)) - first >= base_counts.repeat_interleave(node_counts),
        edge_truth=(edge_index >= base_counts.repeat_interleave(edge_counts)).all(0),
        extra={"base": torch.from_numpy(base.copy()), "motif": torch.from_numpy(motif.copy())},
    )
