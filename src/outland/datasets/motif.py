"""Motif: a base graph that should not matter, joined to a motif that decides the label.

GOOD-Motif (Gui et al., NeurIPS 2022), after Spurious-Motif (Wu et al., ICLR 2022). Every graph is a base (wheel,
tree, ladder, star, path) with one motif (house, cycle, crane) hung on it by one edge, a few noise edges, and a
label that names the motif nine times in ten and is redrawn at random otherwise. Under *covariate* shift, validation
and test have bases (or sizes) never trained on; under *concept* shift, the base (or size) goes with the label in
training and not in test.

Random numbers are drawn in the published order, so seed 123 gives the published graphs, bit for bit.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch

from outland.datasets.motif_shapes import MOTIF_SIZE, Pair, Template, template
from outland.graphs import Cache, Features, PackedGraphs, Schema, Splits, Task
from outland.graphs.dataset import Dataset
from outland.graphs.edges import reverse_edges, to_smallest_int
from outland.progress import track
from outland.storage.raw_files import DataFolder
from outland.tables.splitting import permutation, split_at, split_both_sides

Draw = tuple[int, int, int, int]  # base, width, motif, environment
Row = tuple[int, int, int, int, int, int]  # base, width, motif, anchor, label, environment

_GRAPHS = 30000
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
            for each, splits in generate(domain, seed):
                if each == kind:
                    requested = splits
                else:
                    cache.store(keys[each], splits)
            return requested

        return cache.load_or_build(keys[kind], build, lock_name=f"motif-{domain}-{seed}")


class _Sampler:
    """The two random generators, and what is drawn from them."""

    def __init__(self, seed: int) -> None:
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)

    def graph(self, base: int, width: int, motif: int, environment: int) -> tuple[Row, list[Pair]]:
        """Draw the anchor of the motif, the noise edges and the label of a graph."""
        shape = template(base, width, motif)
        anchor = int(self.numpy.permutation(shape.base_size)[0])
        noise = self._noise(shape, (anchor, shape.base_size), (len(shape.edges) + 1) // 20)
        label = self.python.randint(0, 2) if self.python.random() < 0.1 else motif
        return (base, width, motif, anchor, label, environment), noise

    def _noise(self, shape: Template, joint: Pair, attempts: int) -> list[Pair]:
        randint, added = self.numpy.randint, list[Pair]()
        for _ in range(attempts):
            while True:
                u, v = int(randint(0, shape.size)), int(randint(0, shape.size))
                pair = (u, v) if u < v else (v, u)
                if u != v and pair not in shape.edges and pair != joint and pair not in added:
                    break
            if shape.free[u] or shape.free[v]:
                added.append(pair)
        return added

    def offset(self) -> int:
        return int(self.numpy.randint(-5, 6))

    def base(self) -> int:
        return int(5 * self.numpy.random_sample())

    def covariate(self, index: int) -> int:
        """The base or size of a graph under covariate shift: one of three in training, then 3, then 4."""
        return self.python.randint(0, 2) if index < 24000 else 3 + (index >= 27000)

    def biased(self, motif: int, environment: int) -> int:
        """The base or size of a graph under concept shift: the motif's, or one of three at random."""
        return motif if self.python.random() < _BIASES[environment] else self.python.randint(0, 2)


def generate(domain: str, seed: int) -> Iterator[tuple[str, Splits]]:
    """Yield (kind, splits) of one domain, drawn in the published order: none, covariate, concept."""
    sampler = _Sampler(seed)
    covariate = _base_covariate if domain == "base" else _size_covariate
    concept = _base_concept if domain == "base" else _size_concept
    for kind, draw in (("none", _no_shift), ("covariate", covariate), ("concept", concept)):
        indices = track(range(_GRAPHS), f"Motif {domain}, {kind} shift", _GRAPHS)
        graphs = _pack([sampler.graph(*draw(sampler, index)) for index in indices])
        if kind == "none":
            parts = split_at(permutation(sampler.python, _GRAPHS), 18000, 24000)
            environment = torch.zeros(_GRAPHS, dtype=torch.long)
            environment[parts["train"]] = torch.arange(18000) // 6000
            graphs = replace(graphs, environment=environment)
        else:
            inside, held_out = (24000, 3000) if kind == "covariate" else (18000, 2700)
            outside = torch.arange(inside, _GRAPHS)
            parts = split_both_sides(permutation(sampler.python, inside), outside, held_out)
        source = {"dataset": "motif", "domain": domain, "kind": kind, "seed": seed}
        yield kind, Splits(graphs, parts, Motif.schema, source)


# Base, width, motif and environment of the graph with that index:


def _no_shift(sampler: _Sampler, index: int) -> Draw:
    return sampler.base(), 10 + sampler.offset(), index // 10000, 0


def _base_covariate(sampler: _Sampler, index: int) -> Draw:
    motif = sampler.python.randint(0, 2)
    base = sampler.covariate(index)
    return base, 10 + sampler.offset(), motif, base


def _size_covariate(sampler: _Sampler, index: int) -> Draw:
    randint = sampler.python.randint
    size = sampler.covariate(index)
    base, motif = randint(0, 4), randint(0, 2)
    return base, _COVARIATE_WIDTHS[size] + randint(-5, 5), motif, size


def _base_concept(sampler: _Sampler, index: int) -> Draw:
    motif, environment = sampler.python.randint(0, 2), index // _CONCEPT_BLOCK
    return sampler.biased(motif, environment), 10 + sampler.offset(), motif, environment


def _size_concept(sampler: _Sampler, index: int) -> Draw:
    randint, environment = sampler.python.randint, index // _CONCEPT_BLOCK
    base, motif = sampler.base(), randint(0, 2)
    width = _CONCEPT_WIDTHS[sampler.biased(motif, environment)] + randint(-5, 5)
    return base, width, motif, environment


def _pack(drawn: list[tuple[Row, list[Pair]]]) -> PackedGraphs:
    """The graphs packed: edges in both directions, sorted by source, then target."""
    rows, noise = zip(*drawn, strict=True)
    shapes = [template(base, width, motif) for base, width, motif, *_ in rows]
    base, _, motif, anchor, label, environment = torch.tensor(rows).T.contiguous()
    nodes = np.array([shape.size for shape in shapes])
    base_size = nodes - MOTIF_SIZE
    joints = np.stack([anchor.numpy(), base_size], axis=1)
    noise_edges = np.array([pair for pairs in noise for pair in pairs]).reshape(-1, 2)
    pairs = np.concatenate([*(shape.array for shape in shapes), joints, noise_edges]).astype(np.int32)
    graph = np.arange(len(shapes))
    edges_of, noise_of = [len(shape.array) for shape in shapes], [len(pairs) for pairs in noise]
    owner = np.tile(np.concatenate([np.repeat(graph, edges_of), graph, np.repeat(graph, noise_of)]), 2)
    pairs = np.concatenate([pairs, pairs[:, ::-1]])
    order = np.argsort((owner * nodes.max() + pairs[:, 0]) * nodes.max() + pairs[:, 1])  # no two are equal
    edge_index = torch.from_numpy(np.ascontiguousarray(pairs[order].T))
    node_counts, base_counts = torch.from_numpy(nodes), torch.from_numpy(base_size)
    edge_counts = torch.from_numpy(np.bincount(owner))
    first = (node_counts.cumsum(0) - node_counts).repeat_interleave(node_counts)
    return PackedGraphs(
        x=torch.ones(len(first), 1),
        edge_index=to_smallest_int(edge_index),
        node_counts=node_counts,
        edge_counts=edge_counts,
        y=label,
        reverse=to_smallest_int(reverse_edges(edge_index, node_counts, edge_counts)),
        environment=environment,
        node_truth=torch.arange(len(first)) - first >= base_counts.repeat_interleave(node_counts),
        edge_truth=(edge_index >= base_counts.repeat_interleave(edge_counts)).all(0),
        extra={"base": base, "motif": motif},
    )
