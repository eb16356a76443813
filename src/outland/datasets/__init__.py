"""The benchmarks, one file each, and their registry."""

from importlib import import_module

from outland.errors import OutlandError, unknown
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
