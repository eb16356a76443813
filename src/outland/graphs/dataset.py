"""The interface of a dataset: its domains, kinds of shift, and splits."""

import hashlib
from collections.abc import Mapping
from typing import ClassVar

from outland.errors import OutlandError, unknown
from outland.graphs.cache import Cache
from outland.graphs.packed import PackedGraphs
from outland.graphs.splits import Splits
from outland.storage.raw_files import DataFolder


class Dataset:
    """A set of graphs under one or more shifts: a subclass has the attributes and `load`.

    Attributes:
        name: on the command line.
        summary: one line for `outland list datasets`.
        domains: what may shift (`base`, `size`, `scaffold`, ...), the usual one first.
        kinds: kinds of shift: `covariate`, `concept`, `none`.
        fingerprints: of the published graphs and labels of `domain/kind/part` (see `fingerprint`).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    domains: ClassVar[tuple[str, ...]]
    kinds: ClassVar[tuple[str, ...]] = ("covariate",)
    fingerprints: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def load(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The splits under a shift of `domain`, from the cache or from the raw files in `data`."""
        raise NotImplementedError

    def load_with_descriptors(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """As `load`, of molecules with descriptors, which `backbone.descriptors` reads."""
        raise OutlandError(
            f"the graphs of {self.name} are no molecules and have no descriptors: leave out backbone.descriptors "
            "or --descriptors"
        )

    def smiles(self, graphs: PackedGraphs, data: DataFolder) -> list[str] | None:
        """The SMILES of some of this dataset's graphs; None where they are no molecules."""
        return None

    def check(self, domain: str, kind: str) -> None:
        """Refuse a domain or kind that this dataset does not have."""
        if domain not in self.domains:
            raise unknown(f"domain of {self.name}", domain, self.domains)
        if kind not in self.kinds:
            raise unknown(f"kind of shift of {self.name}", kind, self.kinds)

    def verify(self, splits: Splits, domain: str, kind: str) -> dict[str, bool]:
        """Whether the fingerprint of each part is the published one, where one is."""
        return {
            part: fingerprint(splits.part(part)) == self.fingerprints[f"{domain}/{kind}/{part}"]
            for part in splits.parts
            if f"{domain}/{kind}/{part}" in self.fingerprints
        }


def fingerprint(graphs: PackedGraphs) -> tuple[str, str]:
    """Short SHA-256 of the graphs (`n|y|u-v;...`, one line each, u < v in order) and of the labels (a byte each)."""
    lines = hashlib.sha256()
    edges = graphs.edge_index.T.split(graphs.edge_counts.tolist())
    labels = graphs.y.tolist()
    for size, label, pairs in zip(graphs.node_counts.tolist(), labels, edges, strict=True):
        ordered = sorted((u, v) for u, v in pairs.tolist() if u < v)
        lines.update(f"{size}|{label}|{';'.join(f'{u}-{v}' for u, v in ordered)}\n".encode())
    return lines.hexdigest()[:16], hashlib.sha256(bytes(labels)).hexdigest()[:16]
