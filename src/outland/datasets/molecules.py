"""Molbbbp (does a molecule cross the blood-brain barrier) and Molhiv (does it inhibit HIV)."""

import csv
import gzip
import json
import random
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from outland.chem.descriptors import DESCRIPTORS
from outland.chem.featurizer import ATOMS, BONDS
from outland.chem.packing import factorize, pack_molecules
from outland.chem.prepared import load_molecules
from outland.chem.smiles import MoleculeOptions, read_molecules
from outland.errors import OutlandError
from outland.graphs import PARTS, Cache, PackedGraphs, Schema, Splits, Task
from outland.graphs.cache import Key
from outland.graphs.dataset import Dataset
from outland.storage.raw_files import DataFolder, RawFile
from outland.tables.splitting import Parts, assign_environments, permutation, split_rows


def _moleculenet(name: str, sha256: str) -> RawFile:
    home = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets"
    return RawFile(f"moleculenet/{name}.csv", sha256, f"{home}/{name}.csv")


class MoleculeSet(Dataset):
    """A CSV of molecules with one binary label; all graphs are one cache entry, which every split shares."""

    raw: ClassVar[RawFile]
    target: ClassVar[str]  # column of labels
    frozen: ClassVar[bool] = False  # whether there are no splits but the published ones
    options: ClassVar[MoleculeOptions] = MoleculeOptions()
    domains: ClassVar[tuple[str, ...]] = ("scaffold", "size")
    schema: ClassVar[Schema] = Schema(ATOMS, Task("binary", 1, "rocauc"), BONDS)

    def load(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The splits under a shift of `domain`."""
        return self._load(domain, kind, seed, cache, data, descriptors=False)

    def load_with_descriptors(
        self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None
    ) -> Splits:
        """The same splits, with the molecules' descriptors in `extra`: a cache entry of their own."""
        return self._load(domain, kind, seed, cache, data, descriptors=True)

    def _load(
        self, domain: str, kind: str, seed: int, cache: Cache | None, data: DataFolder | None, descriptors: bool
    ) -> Splits:
        self.check(domain, kind)
        if self.frozen and seed != 123:
            name = type(self).__name__
            raise OutlandError(f"{name}'s splits are frozen as published, with seed 123: data.seed cannot be another")
        files = data or DataFolder()
        recipe = {"name": self.name, "sha256": self.raw.sha256, "recipe": 2}
        if descriptors:
            recipe["descriptors"] = DESCRIPTORS

        def build(key: Key) -> Splits:
            graphs = self._read(files.fetch(self.raw), descriptors)
            return Splits(graphs, {"all": torch.arange(len(graphs))}, self.schema, key)

        entry = load_molecules(cache or Cache(), recipe, build, files.has(self.raw))
        graphs = entry.graphs
        parts, environment = self._split(graphs, domain, kind, seed)
        schema = replace(self.schema, environments=int(environment[parts["train"]].max()) + 1)
        versions = {"rdkit": entry.source["rdkit"], **entry.source.get("versions", {})}
        source = {"dataset": self.name, "domain": domain, "kind": kind, "seed": seed, "versions": versions}
        return Splits(replace(graphs, environment=environment), parts, schema, source)

    def _split(self, graphs: PackedGraphs, domain: str, kind: str, seed: int) -> tuple[Parts, Tensor]:
        """The parts, and the environment of each graph."""
        raise NotImplementedError

    def _read(self, path: Path, descriptors: bool) -> PackedGraphs:
        options = replace(self.options, vector=descriptors, counts=False)
        with path.open(newline="", encoding="utf-8") as stream:
            rows = [(row["smiles"], float(row[self.target])) for row in csv.DictReader(stream)]
        y = torch.tensor([label for _, label in rows])[:, None]
        packed, scaffolds = list[PackedGraphs](), list[str]()
        for chunk in read_molecules([smiles for smiles, _ in rows], options, f"Reading {self.name}", len(rows)):
            if chunk.indices:
                index = torch.tensor(chunk.indices)
                packed.append(pack_molecules(chunk.molecules, y[index], extra={"row": index}))
                scaffolds += chunk.scaffolds
        graphs = PackedGraphs.concatenate(packed)
        extra = {name: values for name, values in graphs.extra.items() if name != "fingerprint"}
        return replace(graphs, extra={**extra, "scaffold": factorize(scaffolds)} if scaffolds else extra)

    def smiles(self, graphs: PackedGraphs, data: DataFolder) -> list[str]:
        """The SMILES of these graphs, from the raw file."""
        with data.fetch(self.raw).open(newline="", encoding="utf-8") as stream:
            rows = [row["smiles"] for row in csv.DictReader(stream)]
        return [rows[row] for row in graphs.extra["row"].tolist()]


class Molbbbp(MoleculeSet):
    """BBBP (Martins et al., 2012) as in OGB: the 2,039 of its 2,050 rows that RDKit can read.

    The scaffold split is OGB's; the size split is AIA's, whose halves of the smallest fifth depend on the seed.
    Training environments are groups of whole scaffolds, or size deciles.
    """

    name: ClassVar[str] = "molbbbp"
    summary: ClassVar[str] = "does a molecule cross the blood-brain barrier (2,039 molecules)"
    raw: ClassVar[RawFile] = _moleculenet("BBBP", "d07a38487aeac5cee5508413e468043ef3097451d2a112701c2d60be9ec6b662")
    target: ClassVar[str] = "p_np"

    def _split(self, graphs: PackedGraphs, domain: str, kind: str, seed: int) -> tuple[Parts, Tensor]:
        columns = {**graphs.extra, "size": graphs.node_counts}
        parts = split_rows(domain, columns) if domain == "scaffold" else _halve_smallest(columns["size"], seed)
        return parts, assign_environments(domain, columns, parts["train"])[0]


def _halve_smallest(sizes: Tensor, seed: int) -> Parts:
    """AIA's size split of Molbbbp: the smallest fifth is shuffled and halved in val and test, the rest trains.

    So val and test have the same distribution, and which is which depends on the seed.
    """
    tenth, order = int(0.1 * len(sizes)), sizes.argsort(stable=True)
    small = order[permutation(random.Random(seed), 2 * tenth)]
    return {"train": order[2 * tenth :], "val": small[:tenth], "test": small[tenth:]}


class Molhiv(MoleculeSet):
    """HIV (NCI's antiviral screen) as in GOOD: all 41,127 rows, in splits frozen with the package.

    GOOD's splits follow from scaffolds, and those from the version of RDKit; the lists were computed with the version
    that gives the published counts, so that the installed one does not matter.
    """

    name: ClassVar[str] = "molhiv"
    summary: ClassVar[str] = "does a molecule inhibit HIV replication (41,127 molecules, 3.5 % do)"
    kinds: ClassVar[tuple[str, ...]] = ("covariate", "concept", "none")
    raw: ClassVar[RawFile] = _moleculenet("HIV", "9ffa7fe57dc86c342627ee1d5255e937e2ab812393c73c4d16c697022f6e1d22")
    target: ClassVar[str] = "HIV_active"
    options: ClassVar[MoleculeOptions] = MoleculeOptions(lenient=True, scaffold=False)
    frozen: ClassVar[bool] = True

    def _split(self, graphs: PackedGraphs, domain: str, kind: str, seed: int) -> tuple[Parts, Tensor]:
        if len(graphs) != 41127:
            raise OutlandError(
                f"RDKit could read {len(graphs):,} of Molhiv's 41,127 molecules; the splits need them all"
            )
        file = files("outland.datasets").joinpath("splits", f"goodhiv_{domain}_seed123.json.gz")
        lists: dict[str, list[int]] = json.loads(gzip.decompress(file.read_bytes()))
        prefix = "no_shift" if kind == "none" else kind
        parts, environment = {}, torch.zeros(len(graphs), dtype=torch.long)
        for part in PARTS:
            if f"{prefix}_{part}" in lists:
                parts[part] = torch.tensor(lists[f"{prefix}_{part}"])
                environment[parts[part]] = torch.tensor(lists[f"{prefix}_{part}_env"]).clamp(min=0)
        return parts, environment
