"""The benchmarks, one file each, their registry, and their parts by name: `DATASET[/DOMAIN[/KIND]]:PART`."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from outland.errors import OutlandError, unknown
from outland.graphs import Cache, PackedGraphs, Splits
from outland.graphs.dataset import Dataset
from outland.storage.raw_files import DataFolder, RawFile
from outland.tables import TableSettings, splits_from_data_list

# name -> module:class, imported when asked for
DATASETS = {
    "motif": "outland.datasets.motif:Motif",
    "cmnist": "outland.datasets.cmnist:CMNIST",
    "molbbbp": "outland.datasets.molecules:Molbbbp",
    "molhiv": "outland.datasets.molecules:Molhiv",
    "mutag": "outland.datasets.tu:MUTAG",
    "nci1": "outland.datasets.tu:NCI1",
    "proteins": "outland.datasets.tu:PROTEINS",
    "collab": "outland.datasets.tu:COLLAB",
    "imdb-binary": "outland.datasets.tu:IMDBBinary",
    "imdb-multi": "outland.datasets.tu:IMDBMulti",
}
_FORM = "write it as DATASET/DOMAIN:PART, as in motif/base:train, or give the file of a table"


def find_dataset(name: str, table: TableSettings | None = None) -> Dataset:
    """The dataset of that name, or the user's own table."""
    if table is not None:
        from outland.tables.smiles_table import SmilesTable

        return SmilesTable(table)
    if name not in DATASETS:
        if "." in name or "/" in name:
            raise OutlandError(f"there is no file {name}")
        raise unknown("dataset", name, DATASETS)
    module, _, attribute = DATASETS[name].partition(":")
    dataset: Dataset = getattr(import_module(module), attribute)()
    return dataset


def is_table(name: str) -> bool:
    """Whether the name of a set is that of a table's file."""
    return bool(Path(name).suffix) and ":" not in Path(name).name


@dataclass(frozen=True)
class PartName:
    """A part of a dataset; a domain or kind that was left out is the dataset's first."""

    dataset: str
    domain: str
    kind: str
    part: str

    @classmethod
    def parse(cls, name: str) -> "PartName":
        """Read `DATASET[/DOMAIN[/KIND]]:PART`."""
        where, colon, part = name.partition(":")
        words = where.split("/")
        if not (colon and part) or len(words) > 3:
            raise OutlandError(f"'{name}' does not name a set of graphs: {_FORM}")
        source = find_dataset(words[0])
        domain = words[1] if len(words) > 1 else source.domains[0]
        kind = words[2] if len(words) > 2 else source.kinds[0]
        source.check(domain, kind)
        return cls(words[0], domain, kind, part)

    @property
    def splits(self) -> str:
        """Name of the dataset under its domain and kind."""
        return f"{self.dataset}/{self.domain}/{self.kind}"

    def load(
        self, seed: int = 123, cache: Cache | None = None, data: DataFolder | None = None, descriptors: bool = False
    ) -> Splits:
        """All parts of the dataset, of molecules with descriptors if they are asked for."""
        source = find_dataset(self.dataset)
        load = source.load_with_descriptors if descriptors else source.load
        return load(self.domain, self.kind, seed, cache, data)


def select_part(splits: Splits, part: str, name: str) -> PackedGraphs:
    """The graphs of a part; an error that calls the splits `name` where there is none."""
    if part not in splits:
        raise unknown(f"part of {name}", part, splits.parts)
    return splits.part(part)
